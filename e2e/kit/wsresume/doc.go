//go:build linux

// Package kept shows whether WebSockets that stay open through moves lose anything: an
// app that keeps them, clients that count, and a judge of what both saw.
//
// A client sends 1, 2, 3, …; the app sends its own numbers, each with that of its leg and
// with the last one that it got. It stores how far it is when a leg is handed over, and
// answers Close after that; against crashes it reserves numbers, so that none comes twice.
//
//	client   the test's, by a library that others wrote
//	app      app.go, a process of its own, by Serve; its frames are frames.go
//	ends     apps and clients by libraries that others wrote: coder.go and ends/
//	judge    judge.go, pure: what is lost, repeated, out of order, or at two places
package wsresume
