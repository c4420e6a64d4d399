// Package planted holds the bugs that are built into Shardway on purpose, so that
// a test can show that the checkers of e2e find them: a checker that has never
// caught anything proves nothing.
//
// A bug stands where it would really be made, as one condition in the product:
//
//	if f.running(a.follower.MayRun) == 0 || planted.On(planted.TwoOwners) {
//
// The program that users run has none: On is the constant false there, and the
// compiler removes what depends on it. Only a build with -tags planted has them,
// and it has one at a time, which it reads once, at its start, from the
// environment:
//
//	go build -tags planted . && SHARDWAY_PLANTED=two-owners ./shardway run …
//
// Such a program says so in its version and in its log.
package planted

// Variable is the environment variable that names the bug to have; unset: none.
const Variable = "SHARDWAY_PLANTED"
