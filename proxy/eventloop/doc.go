// Package eventloop serves small requests of many client connections with one goroutine. A request
// is small if its header and body have arrived, its shard is local, and its response is short. The
// kernel reports which sockets are readable (epoll). The event loop does the work that is possible
// without blocking, and continues with the next socket. No goroutine is woken for a request, and no
// read is attempted before data has arrived.
//
// All other work continues in a goroutine of the connection: steps that must wait, requests that
// are refused, and requests that the event loop does not support.
//
// A Loop is one event loop. A Group contains the loops of a server, and adjusts their number to the
// load. A Client is the part of a client connection that the loops use. Its Handler, the connection
// in package proxy, executes the steps of a request. An Eligibility decides how often a connection
// is given to a loop.
//
// At any time a Client belongs either to its goroutine or to one Loop. The goroutine hands the
// Client to a loop instead of waiting for the next request. The loop hands it back in two cases: the
// next step would block, or another goroutine interrupts the connection (h1.Conn.SetWakeup).
//
//	goroutine ──Join──► loop: waits for a request ──► Handler runs it ──┐
//	    ▲                        │          ▲───────────────────────────┘
//	    └──────── HandOff ◄──────┴── with a ResumePoint, at which the goroutine continues
//
// Only the owner of a Client may call its methods, except Loop and Wake, which any goroutine may
// call. The loop calls the Handler from its own goroutine. A Handler must not block: it must not
// acquire a lock that may be held for a long time, wait for a socket, or write a log. Any goroutine
// may call the methods of a Group.
package eventloop
