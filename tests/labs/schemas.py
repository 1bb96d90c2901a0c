"""
What each system documents of its results file, as JSON Schema (the few words of it that are used), and a validator.

Classroom 50's is its published schemas/result-v1.schema.json, read in November 2026. The others are written after what
the systems' pages say (Gradescope: autograder specification, "Output Format"; PrairieLearn: "External grading",
results.json; Autolab: "Guide for lab authors", JSON autoresults and semantic feedback) and still to be compared with them
word by word. JUnit has no standard of its own; what is checked is what the Jenkins xUnit schema allows.
"""
import json
import re
import xml.etree.ElementTree as tree

NUMBER, TEXT, YES_NO = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
POINTS = {"type": "number", "minimum": 0}
WHOLE = {"type": "integer", "minimum": 0}
NAMED = {"type": "string", "minLength": 1}
VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
TEXT_FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
INSTANT = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$"}

GRADESCOPE = {
    "type": "object", "required": ["score", "tests"], "additionalProperties": False,
    "properties": {
        "score": NUMBER, "execution_time": NUMBER, "output": TEXT, "output_format": TEXT_FORMAT,
        "test_output_format": TEXT_FORMAT, "test_name_format": TEXT_FORMAT, "visibility": VISIBILITY,
        "stdout_visibility": VISIBILITY, "extra_data": {"type": "object"}, "leaderboard": {"type": "array"},
        "tests": {"type": "array", "items": {
            "type": "object", "required": ["score", "max_score", "name"], "additionalProperties": False,
            "properties": {"score": NUMBER, "max_score": POINTS, "status": {"enum": ["passed", "failed"]}, "name": TEXT,
                           "name_format": TEXT_FORMAT, "number": TEXT, "output": TEXT, "output_format": TEXT_FORMAT,
                           "tags": {"type": "array", "items": TEXT}, "visibility": VISIBILITY,
                           "extra_data": {"type": "object"}}}}}}

PRAIRIELEARN = {
    "type": "object", "required": ["gradable"],
    "properties": {
        "gradable": YES_NO, "score": {"type": "number", "minimum": 0, "maximum": 1}, "message": TEXT, "output": TEXT,
        "format_errors": {"type": "array", "items": TEXT}, "images": {"type": "array"},
        "tests": {"type": "array", "items": {
            "type": "object", "required": ["name"],
            "properties": {"name": TEXT, "description": TEXT, "points": POINTS, "max_points": POINTS, "message": TEXT,
                           "output": TEXT, "images": {"type": "array"}}}}}}

AUTOLAB_SCORES = {"type": "object", "required": ["scores"], "additionalProperties": False,
                  "properties": {"scores": {"type": "object", "additionalProperties": NUMBER},
                                 "scoreboard": {"type": "array"}}}
AUTOLAB_TEST = {"type": "object", "required": ["passed"], "properties": {"passed": YES_NO, "hint": TEXT}}
AUTOLAB_FEEDBACK = {"type": "object", "required": ["_presentation", "stages"],
                    "properties": {"_presentation": {"const": "semantic"}, "stages": {"type": "array", "items": TEXT}},
                    "additionalProperties": {"type": "object", "additionalProperties": AUTOLAB_TEST}}

CLASSROOM50 = {
    "type": "object", "additionalProperties": False,
    "required": ["schema", "classroom", "assignment", "assignment_type", "owner", "submission", "commit", "release",
                 "review", "datetime", "score", "max-score", "tests"],
    "properties": {
        "schema": {"const": "classroom50/result/v1"}, "classroom": NAMED, "assignment": NAMED,
        "assignment_type": {"enum": ["individual", "group"]}, "owner": NAMED,
        "submission": {"type": "string", "pattern": "^submit/"}, "commit": NAMED, "release": NAMED, "review": NAMED,
        "datetime": INSTANT, "graded_at": INSTANT, "score": WHOLE, "max-score": WHOLE,
        "tests": {"type": "array", "items": {
            "type": "object", "required": ["test-name", "passed", "score", "max-score"],
            "properties": {"test-name": NAMED, "passed": YES_NO, "score": WHOLE, "max-score": WHOLE}}}}}

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


class Invalid(Exception):
    pass


def validate(value, schema, at="$"):
    def require(condition, what):
        if not condition:
            raise Invalid(f"{at}: {what}: {value!r:.200}")

    if "const" in schema:
        require(value == schema["const"], f"is not {schema['const']!r}")
    if "enum" in schema:
        require(value in schema["enum"], f"is none of {schema['enum']}")
    if "type" in schema:
        require(isinstance(value, TYPES[schema["type"]]) and
                (not isinstance(value, bool) or schema["type"] == "boolean"), f"is no {schema['type']}")
    if "minimum" in schema:
        require(value >= schema["minimum"], f"is below {schema['minimum']}")
    if "maximum" in schema:
        require(value <= schema["maximum"], f"is above {schema['maximum']}")
    if "minLength" in schema:
        require(len(value) >= schema["minLength"], "is too short")
    if "pattern" in schema:
        require(re.search(schema["pattern"], value), f"does not match {schema['pattern']}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            validate(item, schema.get("items", {}), f"{at}[{index}]")
    if isinstance(value, dict):
        for name in schema.get("required", []):
            require(name in value, f"lacks {name}")
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            if name in schema.get("properties", {}):
                validate(item, schema["properties"][name], f"{at}.{name}")
            elif isinstance(others, dict):
                validate(item, others, f"{at}.{name}")
            else:
                require(others, f"may not have {name}")


def strict(text):
    """JSON without NaN and Infinity, which Python would read and write."""
    def refuse(word):
        raise Invalid(f"{word} is not JSON")
    return json.loads(text, parse_constant=refuse)


def check_gradescope(text):
    value = strict(text)
    validate(value, GRADESCOPE)
    return value["score"]


def check_prairielearn(text):
    value = strict(text)
    validate(value, PRAIRIELEARN)
    if value["gradable"] and "score" not in value:
        raise Invalid("gradable, but without a score")
    return sum(test["points"] for test in value["tests"])


def check_autolab(text):
    lines = text.rstrip("\n").split("\n")
    validate(strict(lines[-1]), AUTOLAB_SCORES)
    feedback = strict(lines[-2])
    validate(feedback, {**AUTOLAB_FEEDBACK, "additionalProperties": AUTOLAB_FEEDBACK["additionalProperties"]})
    for stage in feedback["stages"]:
        if stage not in feedback:
            raise Invalid(f"the stage {stage} has no tests")
    return sum(strict(lines[-1])["scores"].values())


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
    score = None
    for suite in root:
        cases = suite.findall("testcase")
        counted = {"tests": len(cases), "failures": len(suite.findall("testcase/failure")),
                   "skipped": len(suite.findall("testcase/skipped")), "errors": len(suite.findall("testcase/error"))}
        if suite.tag != "testsuite" or "name" not in suite.attrib:
            raise Invalid("a suite without a name")
        for name, count in counted.items():
            if int(suite.attrib[name]) != count:
                raise Invalid(f"{name} is {suite.attrib[name]}, but there are {count}")
        for case in cases:
            if not {"name", "classname", "time"} <= set(case.attrib) or \
                    any(child.tag not in ("failure", "skipped", "error", "system-out") for child in case):
                raise Invalid(f"a test case that is none: {case.attrib}")
        score = float(next(item.attrib["value"] for item in suite.iter("property") if item.attrib["name"] == "score"))
    return score


def check_table(text):
    return int(re.match(r".*: (\d+) of \d+ points", text.splitlines()[0])[1])


CHECKS = {"gradescope": check_gradescope, "prairielearn": check_prairielearn, "autolab": check_autolab,
          "classroom50": check_classroom50, "junit": check_junit, "table": check_table}
