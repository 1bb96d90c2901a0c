"""
What each system publishes about its results file, as JSON Schema, which python3-jsonschema validates.
Where each rule comes from, read in November 2026:

  Gradescope     gradescope-autograders.readthedocs.io/en/latest/specs/, "Output format". A score for the whole or for
                 every test is required, all else is optional. The page has more formats for text than the one here.
  PrairieLearn   docs/externalGrading.md of PrairieLearn/PrairieLearn, "Grading results": score from 0 to 1 unless
                 gradable is false, format_errors, tests, at most 1 MB.
  Autolab        docs/lab.md and docs/features/formatted-feedback.md of autolab/Autolab, and what reads them:
                 parseAutoresult and parseFeedback. The last line has the scores, the one before it the stages.
  Classroom 50   schemas/result-v1.schema.json of foundation50/classroom50, and validate_result in its runner.py, which
                 knows assignments of teams, too.
  JUnit          has no standard of its own. This is the schema of Jenkins' xUnit plugin, junit-10.xsd, as pytest keeps
                 it in testing/example_scripts: which elements, which attributes, which of them are required.
"""
import json
import re
import sys
import xml.etree.ElementTree as tree

try:
    import jsonschema
except ImportError:
    sys.exit("These tests need a validator of JSON Schema. Install it with: sudo apt-get install -y python3-jsonschema")

NUMBER, TEXT, YES_NO = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
POINTS = {"type": "number", "minimum": 0}
WHOLE = {"type": "integer", "minimum": 0}
NAMED = {"type": "string", "minLength": 1}
VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
TEXT_FORMAT = {"enum": ["text", "simple_format", "md"]}
INSTANT = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$"}


def record(properties, required=(), more=True):
    """Describes an object with these properties, those that are required, and perhaps more."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": more}


def array(items):
    return {"type": "array", "items": items}


GRADESCOPE = record({
    "score": NUMBER, "execution_time": NUMBER, "output": TEXT, "output_format": TEXT_FORMAT,
    "test_output_format": TEXT_FORMAT, "test_name_format": TEXT_FORMAT, "visibility": VISIBILITY,
    "stdout_visibility": VISIBILITY, "extra_data": {"type": "object"}, "leaderboard": {"type": "array"},
    "tests": array(record({
        "score": NUMBER, "max_score": POINTS, "status": {"enum": ["passed", "failed"]}, "name": TEXT,
        "name_format": TEXT_FORMAT, "number": TEXT, "output": TEXT, "output_format": TEXT_FORMAT,
        "tags": array(TEXT), "visibility": VISIBILITY, "extra_data": {"type": "object"}}, more=False))}, more=False)

PRAIRIELEARN = record({
    "gradable": YES_NO, "score": {"type": "number", "minimum": 0, "maximum": 1}, "message": TEXT, "output": TEXT,
    "format_errors": array(TEXT), "images": {"type": "array"},
    "tests": array(record({
        "name": TEXT, "description": TEXT, "points": POINTS, "max_points": POINTS, "message": TEXT, "output": TEXT,
        "images": {"type": "array"}}, ["name"]))})

AUTOLAB_SCORES = record({"scores": record({}, more=NUMBER), "scoreboard": {"type": "array"}}, ["scores"], more=False)
AUTOLAB_TEST = record({"passed": YES_NO, "hint": TEXT}, ["passed"])
AUTOLAB_FEEDBACK = record({"_presentation": {"const": "semantic"}, "stages": array(TEXT)}, ["_presentation", "stages"],
                          more=record({}, more=AUTOLAB_TEST))

CLASSROOM50 = record({
    "schema": {"const": "classroom50/result/v1"}, "classroom": NAMED, "assignment": NAMED,
    "assignment_type": {"enum": ["individual", "group", "team"]}, "owner": NAMED,
    "submission": {"type": "string", "pattern": "^submit/"}, "commit": NAMED, "release": NAMED, "review": NAMED,
    "datetime": INSTANT, "graded_at": INSTANT, "score": WHOLE, "max-score": WHOLE,
    "submitted_by": record({"username": NAMED, "id": {}}, ["username"], more=False),
    "tests": array(record({"test-name": NAMED, "passed": YES_NO, "score": WHOLE, "max-score": WHOLE},
                          ["test-name", "passed", "score", "max-score"]))},
    ["schema", "classroom", "assignment", "assignment_type", "owner", "submission", "commit", "release", "review",
     "datetime", "score", "max-score", "tests"], more=False)

# Describes elements of a JUnit file: required attributes, other allowed attributes, and what may be inside. This is a part of the
# schema, enough for what is written here.
COUNTED = {"tests", "failures", "errors"}
JUNIT = {
    "testsuites": (set(), {"name", "time"} | COUNTED, {"testsuite"}),
    "testsuite": ({"name"} | COUNTED, {"time", "skipped", "group", "timestamp", "hostname", "id", "package", "file"},
                  {"testsuite", "properties", "testcase"}),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname", "group"}, {"skipped", "failure", "errors"}),
    "failure": (set(), {"type", "message"}, set()),
    "errors": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
}
JUNIT_TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?")


class Invalid(Exception):
    pass


def validate(value, schema):
    wrong = jsonschema.exceptions.best_match(jsonschema.Draft7Validator(schema).iter_errors(value))
    if wrong:
        raise Invalid(f"{wrong.json_path}: {wrong.message:.200}")


def strict(text):
    """Refuses NaN and Infinity in JSON, which Python would read and write."""
    def refuse(word):
        raise Invalid(f"{word} is not JSON")
    return json.loads(text, parse_constant=refuse)


def check_gradescope(text):
    value = strict(text)
    validate(value, GRADESCOPE)
    if "score" not in value and not all("score" in test for test in value.get("tests", [{}])):
        raise Invalid("neither a score for the whole nor one for every test")
    return value["score"]


def check_prairielearn(text):
    value = strict(text)
    validate(value, PRAIRIELEARN)
    if value.get("gradable", True) and "score" not in value:
        raise Invalid("gradable, but without a score")
    if len(text.encode()) > 1000000:
        raise Invalid("more than 1 MB")
    return round(sum(test["points"] for test in value["tests"]), 1)  # each of them was rounded


def check_autolab(text):
    lines = text.rstrip().split("\n")
    validate(strict(lines[-1]), AUTOLAB_SCORES)
    if re.search(r"[A-Za-z0-9]:", lines[-1]):
        raise Invalid(f"Autolab would put quotes around the word before the colon: {lines[-1]}")
    feedback = strict(lines[-2])
    validate(feedback, AUTOLAB_FEEDBACK)
    for stage in feedback["stages"]:
        if stage not in feedback:
            raise Invalid(f"the stage {stage} has no tests")
    scores = strict(lines[-1])["scores"]
    shown = [*scores, *feedback["stages"], *(name for stage in feedback["stages"] for name in feedback[stage])]
    if not scores or any(name.startswith("_") for name in shown):
        raise Invalid("no score, or a name that begins with _, which Autolab does not show")
    return round(sum(scores.values()), 1)


def check_classroom50(text):
    value = strict(text)
    validate(value, CLASSROOM50)
    for part in (value, *value["tests"]):
        if part["score"] > part["max-score"]:
            raise Invalid("a score above its maximum")
    return value["score"]


def check_junit(text):
    root = tree.fromstring(text)
    if root.tag != "testsuites":
        raise Invalid(f"the root is {root.tag}")
    for element in root.iter():
        if element.tag not in JUNIT:
            raise Invalid(f"an element {element.tag}")
        required, allowed, inside = JUNIT[element.tag]
        if not required <= set(element.attrib) <= required | allowed:
            raise Invalid(f"{element.tag} with the attributes {sorted(element.attrib)}")
        if any(child.tag not in inside for child in element):
            raise Invalid(f"in {element.tag} lies {[child.tag for child in element]}")
        if element.tag.startswith("testsuite") and not JUNIT_TIME.fullmatch(element.get("time", "")):
            raise Invalid(f"the time {element.get('time')}")
    for suite in root.iter("testsuite"):
        counted = {"tests": len(suite.findall("testcase")), "failures": len(suite.findall("testcase/failure")),
                   "skipped": len(suite.findall("testcase/skipped")), "errors": len(suite.findall("testcase/errors"))}
        for name, count in counted.items():
            if int(suite.get(name, "0")) != count:
                raise Invalid(f"{name} is {suite.get(name)}, but there are {count}")
    return float(next(item.attrib["value"] for item in root.iter("property") if item.attrib["name"] == "score"))


def check_table(text):
    return float(re.match(r".*: ([\d.]+) of [\d.]+ points", text.splitlines()[0])[1])


CHECKS = {"gradescope": check_gradescope, "prairielearn": check_prairielearn, "autolab": check_autolab,
          "classroom50": check_classroom50, "junit": check_junit, "table": check_table, "exit": check_table}
