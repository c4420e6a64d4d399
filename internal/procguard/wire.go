package procguard

import "time"

// guardName is the first argument of a guard process. IsGuard recognizes the guard by it.
const guardName = "shardway-process-guard"

// TokenVariable is the environment variable that marks all processes of a child.
const TokenVariable = "SHARDWAY_PROCESS"

// commandKind is the kind of a command to the guard.
type commandKind string

const (
	commandStart    commandKind = "start"
	commandStop     commandKind = "stop"
	commandDeadline commandKind = "deadline"
)

// command is a command to the guard: one line of JSON.
type command struct {
	Kind  commandKind   `json:"kind"`
	ID    uint64        `json:"id,omitempty"`
	Spec  *Spec         `json:"spec,omitempty"`    // commandStart
	Grace time.Duration `json:"grace,omitempty"`   // commandStop: time between SIGTERM and SIGKILL; zero means SIGKILL
	Term  time.Duration `json:"term_at,omitempty"` // commandDeadline, of CLOCK_BOOTTIME
	Kill  time.Duration `json:"kill_at,omitempty"` // commandDeadline, of CLOCK_BOOTTIME
	Hello string        `json:"lock,omitempty"`    // commandLock: the lock file
}

// commandLock is the first command: the guard locks the file, and then sends eventReady.
const commandLock commandKind = "lock"

// Spec describes a child.
type Spec struct {
	Args [][]byte `json:"args"` // program and arguments; not text, because a key may contain any byte
	Env  [][]byte `json:"env"`
	Dir  string   `json:"dir"` // working directory; empty means that of the node
}

// eventKind is the kind of an event from the guard.
type eventKind string

const (
	eventReady   eventKind = "ready"
	eventStarted eventKind = "started"
	eventFailed  eventKind = "failed" // the child was not started
	eventEnded   eventKind = "ended"
	eventOutput  eventKind = "output"
)

// guardEvent is an event from the guard: one line of JSON.
type guardEvent struct {
	Kind   eventKind `json:"kind"`
	ID     uint64    `json:"id,omitempty"`
	PID    int       `json:"pid,omitempty"`
	Text   string    `json:"text,omitempty"`   // the error, the exit status, or a line of output
	Stream string    `json:"stream,omitempty"` // eventOutput: stdout or stderr
	Lost   uint64    `json:"lost,omitempty"`   // eventOutput: number of lines that were dropped before this one
}

// Events contains callbacks for the starts and ends of children. They must not block, and are called one at a time.
type Events struct {
	// Started is called when the main process of a child runs.
	Started func(id uint64, pid int)
	// Failed is called when a child could not be started. There is no further event for it.
	Failed func(id uint64, reason string)
	// Ended is called when no process of a child is left. status describes how its main process has ended.
	Ended func(id uint64, status string)
	// Output is called for each line that a child has written to stdout or stderr. lost is the number of lines
	// that were dropped since the previous call for any child.
	Output func(id uint64, stream, line string, lost uint64)
	// GuardEnded is called once when the guard has ended. All children have then been killed, or are about to be.
	GuardEnded func(err error)
}
