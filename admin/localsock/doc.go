// Package localsock creates the Unix socket in the data directory of a node. The command
// `shardway drain --local` uses the socket to drain the node on the same machine.
//
// The socket needs no token: only the owner of the data directory and root can open it, and both
// could stop the node anyway. Package admin serves the socket. Package admin/client sends requests to
// it.
package localsock
