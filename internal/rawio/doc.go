// Package rawio reads and writes sockets that do not block, where the scheduler need
// not know: for functions of a syscall.RawConn. The calls never wait.
package rawio
