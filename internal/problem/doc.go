// Package problem makes the answers that Shardway gives by itself when it cannot
// give the app's: RFC 9457 problem JSON and the header Shardway-Error, whose
// value is a Code.
//
// The proxy appends a Problem to a buffer of its own (AppendJSON: no reflection,
// no allocation beyond the buffer); the admin server hands it to Write. Problem is
// an error, so it also travels through code that returns one, and Decode makes
// it again from the bytes on the other side.
package problem
