//go:build linux

// Package wsresume tests whether resumable WebSockets lose data when their shard moves.
// It contains an app that supports them, and a checker of what clients and apps observed.
//
// A client sends 1, 2, 3, …. The app sends its own numbers, each with the number of its
// upstream connection and the last number that it received. It stores its position when
// it hands a session over, and answers the Close frame after that. It also reserves
// numbers, so that no number is repeated after a crash.
//
//	client   in the test, with a library of a third party
//	app      app.go, a separate process by Serve; its frames are in frames.go
//	peers    apps and clients with libraries of third parties: coder.go and peers/
//	checker  check.go, pure: finds lost, repeated and reordered messages, and simultaneous
//	         connections
package wsresume
