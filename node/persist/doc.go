// Package persist stores small values in the data directory of a node without blocking the callers that
// change them.
//
// A Value contains the newest value and the value that is on the disk. Set and Update change the newest
// value and return immediately. Run, in one goroutine, writes it. A caller that must not act before a value is
// durable compares it with the result of Get, and waits for the returned channel.
//
// All methods except Run may be called from any goroutine, also before Run starts and after it returns.
package persist
