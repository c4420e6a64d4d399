// Package wstunnel copies non-resumable WebSockets between a client and an app, and closes them with a close frame
// when their shard moves or their node stops.
//
// A Tunnel has two directions. Each direction has a goroutine of package proxy, which calls CopyUp or
// CopyDown. Another goroutine may call StartClose at any time:
//
//	New ─► Begin ─► CopyUp, CopyDown ─► Finish
//	         StartClose ─► close frames to both endpoints ─► their answers, or EndTimeout ─► Abort
//
// A close frame is inserted only between two frames, and nothing follows it. The atomic state of a
// direction decides which goroutine may write to its receiver.
package wstunnel
