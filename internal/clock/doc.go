// Package clock gives the time since an origin, in two qualities.
//
// Leases are promises about elapsed time, so nothing here knows a date and no
// change of the wall clock shows. Now is cheap and stands still while the
// machine is suspended; Precise counts the suspension too and costs a system
// call (240 ns against 50 ns), so the request path asks it once, right before
// the first byte goes to the app. Both count from the same origin: a
// difference between the two is time slept through.
//
// New is the clock of a running node, Virtual the one for a testing/synctest
// bubble (where CLOCK_BOOTTIME would be real time), Manual the one for tests
// that move time by hand. All are safe for any number of goroutines.
//
// A Pulse is no clock but the one timer of what a process does every so often.
package clock
