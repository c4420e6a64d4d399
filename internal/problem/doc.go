// Package problem creates the error responses of Shardway itself: RFC 9457 problem JSON and the
// header Shardway-Error, whose value is a Code.
//
// The proxy appends a Problem to its own buffer with AppendJSON, without reflection and without
// other allocations. The admin server uses Write. Problem is an error, so functions can return it.
// Clients use Decode to parse the response.
package problem
