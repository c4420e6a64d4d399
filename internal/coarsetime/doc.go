// Package coarsetime provides a clock that is cheap to read, for the age of connections and
// requests.
//
// The owner of a Clock updates it at intervals, and any goroutine may read it. The clock counts from its start and
// uses the monotonic clock of the system. Changes of the system time therefore do not affect timeouts.
package coarsetime
