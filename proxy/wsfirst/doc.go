// Package wsfirst accepts WebSockets whose key is in their first message (key sources ws-json and
// ws-first). The node responds with 101 before it has asked the app, reads the first message, and then
// routes the upgrade request of the client like any other request:
//
//	CheckUpgrade ─► SelectProtocol ─► Limit.Enter ─► 101 ─► Read ─► Limit.Leave ─► upgrade at the app
//	                                                          └─► Failure: close frame
//
// An Accepted is the state of such a WebSocket until the app has also accepted it. The goroutine of the
// client's connection calls its methods. Any goroutine may enter the Limit, which can evict another
// WebSocket.
//
// # Limits
//
// A WebSocket that waits for its first message costs a connection and a goroutine. Limit bounds their number. At
// the limit, a new WebSocket evicts one from the address that has the most, so a flood from one address evicts
// itself.
package wsfirst
