"""Results as the systems want them that show them to students. Each function makes the text of the results file."""
import datetime
import json
import os
import re
import xml.etree.ElementTree as tree


def plain(text):
    """Removes what XML 1.0 cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]", "?", text)


def dump(value):
    return json.dumps(value, indent=2) + "\n"


def summary(results):
    ungraded = sum(test["status"] == "ungraded" for test in results["tests"])
    return f"{results['title']}: {results['score']} of {results['max']} points" + \
        (f"; {ungraded} tests could not be graded" if ungraded else "") + \
        "".join(f"; not judged: {what}" for what in results["not_judged"]) + f"; sandbox: {results['protection']}"


def line(test):
    return " ".join((test["status"] + (": " + test["reason"] if test["reason"] else "")).split())


def gradescope(results):
    tests = []
    for number, test in enumerate(results["tests"], 1):
        tests.append({"name": test["name"], "number": str(number), "score": test["points"], "max_score": test["max"],
                      "output": line(test), "tags": [test["kind"]],
                      "visibility": os.environ.get("LAB_CASES") or "visible" if test["kind"] == "case" else "visible"})
        if test["status"] == "ungraded":
            tests[-1]["tags"].append("ungraded")
            tests[-1]["name"] += " (ungraded)"
        else:
            tests[-1]["status"] = test["status"]
    return dump({"score": results["score"], "execution_time": results["seconds"], "output": summary(results),
                 "output_format": "text", "visibility": "visible", "stdout_visibility": "hidden",
                 "extra_data": {"max": results["max"], "seed": results["seed"], "cases": results["cases"]}, "tests": tests,
                 "leaderboard": [{"name": f"{timing['kernel']}, ms", "value": timing["milliseconds"], "order": "asc"}
                                 for timing in results["timings"]]})


def prairielearn(results):
    graded = [test for test in results["tests"] if test["status"] != "ungraded"]
    tests = [{"name": test["name"], "description": test["kind"], "points": test["points"], "max_points": test["max"],
              "message": line(test), "output": test["reason"]} for test in results["tests"]]
    if not graded:
        reason = results["tests"][0]["reason"] if results["tests"] else "there was nothing to grade"
        return dump({"gradable": False, "message": f"could not be graded: {reason}", "format_errors": [reason],
                     "tests": tests})
    return dump({"gradable": True, "score": results["score"] / results["max"] if results["max"] else 0.0,
                 "message": summary(results), "tests": tests})


def autolab(results):
    """Autolab reads the last line that a grader prints: points for each of the assessment's problems."""
    kinds = sorted({test["kind"] for test in results["tests"]})
    stages = {kind: {} for kind in kinds}
    for test in results["tests"]:
        stages[test["kind"]][test["name"]] = {"passed": test["status"] == "passed",
                                              "hint": line(test) if test["status"] != "passed" else ""}
    feedback = {"_presentation": "semantic", "stages": kinds, **stages}
    scores = {"scores": {kind: round(sum(test["points"] for test in results["tests"] if test["kind"] == kind), 2)
                         for kind in kinds}}
    return "".join(f"{test['name']}: {test['points']}/{test['max']} {line(test)}\n".replace("\n", " ").strip() + "\n"
                   for test in results["tests"]) + json.dumps(feedback) + "\n" + json.dumps(scores) + "\n"


def classroom50(results):
    """Returns what the runner's environment says of the submission's owner, or outside a runner a placeholder."""
    def given(name, otherwise):
        return os.environ.get(name) or otherwise

    tag = given("SUBMISSION_TAG", "submit/local")
    commit = given("COMMIT_URL", "local")
    # Points are whole here, so all tests of a kind are one.
    kinds, tests = {}, []
    for test in results["tests"]:
        kinds.setdefault((test["kernel"], test["kind"]), []).append(test)
    for (kernel, kind), group in kinds.items():
        most, passed = round(sum(test["max"] for test in group)), all(test["status"] == "passed" for test in group)
        score = int(sum(test["points"] for test in group) + 0.05)  # each of them was rounded
        tests.append({"test-name": f"{kernel}: {kind}", "passed": passed, "score": score, "max-score": most,
                      "ungraded": any(test["status"] == "ungraded" for test in group),
                      "message": " | ".join(f"{test['name']}: {line(test)}" for test in group if test["status"] != "passed")[:2000]})
    return dump({"schema": "classroom50/result/v1", "classroom": given("CLASSROOM", "local"),
                 "assignment": given("ASSIGNMENT", results["step"]),
                 "assignment_type": given("ASSIGNMENT_TYPE", "individual"),
                 "owner": given("OWNER", given("USERNAME", "local")),
                 "submission": tag if tag.startswith("submit/") else "submit/" + tag, "commit": commit,
                 "release": given("RELEASE_URL", "local"), "review": given("REVIEW_URL", commit),
                 "datetime": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                 "score": sum(test["score"] for test in tests), "max-score": sum(test["max-score"] for test in tests),
                 "tests": tests})


def junit(results):
    count = {status: sum(test["status"] == status for test in results["tests"]) for status in ("failed", "ungraded")}
    numbers = {"tests": str(len(results["tests"])), "failures": str(count["failed"]), "errors": "0",
               "time": f"{results['seconds']:.1f}"}
    suites = tree.Element("testsuites", numbers)
    suite = tree.SubElement(suites, "testsuite", {"name": results["step"], **numbers, "skipped": str(count["ungraded"])})
    properties = tree.SubElement(suite, "properties")
    for name in ("score", "max"):
        tree.SubElement(properties, "property", {"name": name, "value": str(results[name])})
    for test in results["tests"]:
        case = tree.SubElement(suite, "testcase", {"name": plain(test["name"]), "classname": results["step"],
                                              "time": f"{test['seconds']:.2f}"})
        if test["status"] == "failed":
            tree.SubElement(case, "failure", {"message": plain(test["reason"]), "type": test["kind"]})
        elif test["status"] == "ungraded":
            tree.SubElement(case, "skipped", {"message": plain(test["reason"])})
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tree.tostring(suites, encoding="unicode") + "\n"


def table(results):
    width = max([len(test["name"]) for test in results["tests"]] + [4])
    lines = [f"{test['name']:{width}}  {test['points']:>3}/{test['max']:<3}  {line(test)}" for test in results["tests"]]
    return "\n".join([summary(results), "", *lines]) + "\n"


FORMATS = {"gradescope": gradescope, "classroom50": classroom50, "prairielearn": prairielearn, "autolab": autolab,
           "junit": junit, "table": table, "exit": table}
