// Package procguard runs child processes in a guard: a separate process of the same program that ends the
// children when the node ends, freezes, or loses its lease.
//
// The node starts one guard (Start) and sends it commands over a pipe: start a child, stop a child, and the
// times until which children may run (Client.SetDeadline). The guard starts the children and reports their
// output and their ends. It has three reasons to end a child without a command:
//
//   - The pipe is closed, because the node has ended. The guard then kills all children and exits.
//   - The deadline has passed. The node extends it with each lease, which a frozen or isolated node cannot do. The deadline is a time of CLOCK_BOOTTIME, which both processes read.
//   - The main process of a child has ended. The guard then ends the processes that the child has started.
//
// # Processes of a child
//
// Each child is the leader of its own session. The guard is a child subreaper (PR_SET_CHILD_SUBREAPER): when a
// process ends, its children become children of the guard. Each process below the guard therefore belongs to a
// child by the first of these rules that applies: the process is in the session or process group of the child, its
// environment contains the variable SHARDWAY_PROCESS of the child, or one of its ancestors belongs to the child. An
// orphan to which none applies is killed whenever a child ends. A child has ended when none of its processes is
// left.
//
// If the guard itself is killed, the kernel kills the main process of each child (parent-death signal). That
// signal belongs to the thread that starts the process, so one locked thread starts all of them and never ends
// before the guard.
//
// # States of a child in the guard
//
//	running ──stop──► terminating ──grace over──► killing ──no process left──► ended
//	   │                   └──────no process left─────────────────────────────►  ▲
//	   └──main process ended, kill, or deadline──► killing ──────────────────────┘
//
// # Goroutines
//
// In the guard, one goroutine on the locked thread owns all state. Further goroutines only read commands, read
// output and write events. In the node, any goroutine may call the methods of Client, and one goroutine calls
// the functions of Events.
//
// A guard exists on Linux only.
package procguard
