// Package accesslog writes the access log of the proxy: one JSON line for each request that a client
// has sent to this node, and for each upstream connection of a resumable WebSocket.
//
// An Entry collects the data of one line while the request runs. The goroutine of the connection
// opens it, fills it, and passes it to Config.Write with the Request. A Config does not change; any
// number of goroutines may use it.
package accesslog
