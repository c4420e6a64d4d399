// Command rerun runs tests, watches the machine beside them, and repeats by itself what
// failed while the machine was away.
//
// Tests of whole clusters run by the real clock: a lease of half a second lapses when a
// host takes the processors away for as long, which says nothing about the code. What
// fails then is repeated, alone, and has to pass. Five rules keep that from hiding
// anything:
//
//   - A failure earns a repeat only by what was measured during that test (see Absence):
//     on a machine that is there, red is red.
//   - What has its own time (-never) does not care how fast it is played.
//   - A broken promise, a data race and a panic are found by starving machines, not made
//     by them: they are never repeated.
//   - A package that the race detector ends by a fault of its own is repeated whole,
//     once, whatever the machine did; none of its tests may have failed before.
//   - Repeats are counted, bounded in number and time, and printed.
//
// Usage:
//
//	rerun -json FILE [-never REGEXP] [-repeats N] [-within D] [-until SECONDS]
//	      -- GOTESTSUM [FLAG...] -- [FLAG...] PACKAGE...
//
// It runs GOTESTSUM with `--jsonfile FILE` and ends as it did, or with 0 if all that
// failed passed when repeated. What the repeats ran is written beside FILE.
package main
