// Package demo runs a small cluster on one machine: three nodes, each in front of a sample app that
// counts the requests of each key. All of them are processes of the same binary on loopback addresses.
// The apps share a directory, so the counters follow their shards from app to app.
//
// # Types
//
//   - Run is the command demo. It starts the processes, waits until all nodes serve, prints commands to
//     try, restarts each process that the user kills, and stops and removes everything when its context
//     ends.
//   - App is the sample app, and RunApp the command demo-app. App uses the hooks acquire, release and
//     lost, and serves a chat over WebSockets at /chat.
//   - fleet supervises the processes. layout assigns their ports.
//
// # Concurrency
//
// The goroutine that called Run owns all processes. It stays locked to its operating system thread,
// because the kernel ties the signal "my parent has died" to the thread that started a child, and not
// to the process. App is safe for concurrent use.
package demo
