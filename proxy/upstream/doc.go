// Package upstream connects a node to its app and to the other nodes.
//
// Pools contains a connpool.Pool for each app instance and each other node, or procpool.Pools if each
// key has its own process of the app. Package proxy chooses a pool for each request, and gets a
// connection from it. All methods of Pools may be called from any goroutine, after Init.
//
// A dial uses the Limits current when it starts. Close cancels the dials in progress.
//
// URLDialer returns a function that connects to the configured address of an app. PeerOptions returns the
// limits of headers between nodes, which both ends of a connection must apply.
package upstream
