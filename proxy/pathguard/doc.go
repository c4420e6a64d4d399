// Package pathguard recognizes requests for a path that clients must not reach, the path of the app's hooks. It is
// a security boundary.
//
// Servers differ in how they interpret a path: they decode escapes once or repeatedly, resolve dots, drop
// parameters, or fold letter case. No spelling that the app could take for the guarded path may reach it.
// Guard.Matches therefore reports true if any known interpretation leads to the guarded path, or to a path below
// it.
//
// A Guard does not change after New. Any number of goroutines may call Matches.
package pathguard
