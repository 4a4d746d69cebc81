"""Which lab tests run again, and what is counted."""

import unittest

from . import testrun

DEAD = "the lab failed, and was started anew: node-a: panicked; does not answer\nnode-b: alive; rxe0"


def output(passed=(), failed=(), said=None, end=True):
    """libtest's output of such a run."""
    lines = [*(f"test {name} ... ok" for name in passed), *(f"test {name} ... FAILED" for name in failed), "", "failures:", ""]
    for name, words in (said or {}).items():
        lines += [f"---- {name} stdout ----", words, ""]
    if end:
        lines.append(f"test result: FAILED. {len(passed)} passed; {len(failed)} failed; 0 ignored")
    return "\n".join(lines) + "\n"


def play(*runs):
    """(exit code, what was said, tests asked for in each run) over recorded runs."""
    left, asked, said = list(runs), [], []

    def run(names):
        asked.append(names)
        return left.pop(0)

    return testrun.all_tests(run, said.append), said, asked


class Reruns(unittest.TestCase):
    def test_a_clean_run_is_the_only_one(self):
        code, said, asked = play(output(passed=["a", "b"]))
        self.assertEqual((code, said, asked), (0, ["test result: ok. 2 passed; 0 failed"], [[]]))

    def test_a_failure_with_both_guests_alive_is_final(self):
        code, said, asked = play(output(["a"], ["b"], {"b": "assertion failed"}))
        self.assertEqual((code, asked), (1, [[]]))
        self.assertEqual(said, ["failed: b", "test result: FAILED. 1 passed; 1 failed"])

    def test_only_the_test_that_lost_its_guest_runs_again(self):
        code, said, asked = play(output(["a"], ["b", "c"], {"b": DEAD, "c": "wrong"}), output(["b"]))
        self.assertEqual((code, asked), (1, [[], ["b"]]))
        self.assertEqual(said[-1], "test result: FAILED. 2 passed; 1 failed")
        code, said, asked = play(output(["a"], ["b"], {"b": DEAD}), output(["b"]))
        self.assertEqual((code, said[-1]), (0, "test result: ok. 2 passed; 0 failed"))
        self.assertIn("kernel died during 1 test(s)", said[0])

    def test_a_test_that_fails_on_the_new_lab_has_failed(self):
        code, said, _ = play(output(["a"], ["b"], {"b": DEAD}), output([], ["b"], {"b": "wrong"}))
        self.assertEqual((code, said[-1]), (1, "test result: FAILED. 1 passed; 1 failed"))

    def test_reruns_end(self):
        dead = output(["a"], ["b"], {"b": DEAD})
        code, said, asked = play(*[dead] * (1 + testrun.RERUNS))
        self.assertEqual((code, len(asked)), (1, 1 + testrun.RERUNS))
        self.assertEqual(said[-1], "test result: FAILED. 1 passed; 1 failed")

    def test_a_program_that_broke_is_a_failure(self):
        for text in ("error: could not compile", output(["a"], [], end=False)):
            code, said, _ = play(text)
            self.assertEqual(code, 1)
            self.assertRegex(said[-1], r"FAILED\. \d passed; 1 failed")

    def test_no_tests_are_no_pass(self):
        self.assertEqual(play("test result: ok. 0 passed; 0 failed; 0 ignored\n")[0], 1)

    def test_a_line_with_noise_before_the_word_counts(self):
        self.assertEqual(testrun.outcomes("test x::y ... warm ok\ntest z ... FAILED\n"), {"x::y": True, "z": False})


if __name__ == "__main__":
    unittest.main()
