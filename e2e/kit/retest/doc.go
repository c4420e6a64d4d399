// Command retest runs tests and measures the availability of the machine. It repeats tests that failed while the
// machine was not available.
//
// Tests of whole clusters use the real clock. A lease of half a second lapses if the host
// takes the processors away for that long, which is no fault of the code. A test that
// failed for this reason is repeated alone, and must pass then. Five rules ensure that
// this hides no fault:
//
//   - A test is repeated only if the measurement during that test permits it (see Absence).
//     On an available machine, a failure is a failure.
//   - Tests with virtual time (-never) are never repeated, since delays do not affect them.
//   - A violated safety property, a data race or a panic is found by a starved machine, and
//     not caused by it. Such a test is never repeated.
//   - A package is repeated as a whole, once, if the race detector ended it because of its own
//     fault, and none of its tests had failed before. The machine does not matter.
//   - Repeats are counted, limited in number and time, and printed.
//
// Usage:
//
//	retest -json FILE [-never REGEXP] [-repeats N] [-within D] [-until SECONDS]
//	       -- GOTESTSUM [FLAG...] -- [FLAG...] PACKAGE...
//
// It runs GOTESTSUM with `--jsonfile FILE`. It exits with the same status, or with 0 if
// all failed tests passed when repeated. It writes the output of the repeats next to
// FILE.
package main
