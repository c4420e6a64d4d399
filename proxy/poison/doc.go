// Package poison records which keys had a request in progress at a process that has crashed. A key
// whose requests crash several processes is poisonous: if it were retried, it would crash the
// processes of all nodes.
//
// The ingress calls Recorder.Record when its connection to another node breaks while the request of
// a client waits for a response. A Record belongs to one process. It implicates its keys if there
// are few of them; with more than MaxImplicated keys, the culprit cannot be identified.
//
//   - Package proxy does not retry a request whose key is implicated in two crashes.
//   - A short time after the first broken connection, the Recorder reports the Crash to the node,
//     which collects the reports of all ingress nodes (package node/crashdetect).
//
// Any goroutine may call the methods of a Recorder. It remembers a limited number of processes for a
// limited time.
package poison
