// Package writelimit limits how long an app in another process may write the state of its shards while out of
// contact with its node.
//
// Such an app continues to run when its node is killed, and another node may then own its shards, so the node
// informs the app for how long it may still write, in one of two ways:
//
//   - The node calls the hook alive of each app instance several times within that time (Limit.RunHook).
//   - The app sends GET /v1/owned to its node (Limit.ForOwned).
//
// A time is granted only after it was stored in the data directory. After a crash, the next process of the
// node waits until the granted time has passed, or until the app has confirmed that it stopped
// (Limit.AwaitEarlier). Only then does it send its first heartbeat.
//
// An app in the node's process ends together with it, and has no limit.
//
// All methods may be called from any goroutine. Run, RunHook and AwaitEarlier are each called once.
package writelimit
