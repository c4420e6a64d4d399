// Package clock provides monotonic time, a shared ticker and CPU usage figures.
//
// A Clock returns the time since its origin, in two variants. Leases are promises about
// elapsed time, so a Clock has no date and ignores changes of the wall clock. Now is cheap
// (50 ns) and does not advance while the machine is suspended. Precise includes suspension
// and needs a system call (240 ns), so the request path calls it once, immediately before
// it sends the first byte to the app. Both have the same origin: their difference is the
// time that the machine was suspended.
//
// New returns the clock of a running node. Virtual is for a testing/synctest bubble, in
// which CLOCK_BOOTTIME would be real time. Manual is for tests that advance time
// explicitly.
//
// A Scheduler is the shared ticker for all periodic work of a process. The goroutine that calls
// Run delivers its ticks on the channels of Tickers.
//
// All types are safe for concurrent use.
package clock
