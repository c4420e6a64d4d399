package api

import "time"

// MaxPause is the longest duration of a pause or a quarantine.
const MaxPause = 7 * 24 * time.Hour

// MaxReason is the longest reason of an action, in bytes.
const MaxReason = 200

// MaxPinFallbacks is the maximum number of nodes of a pin after the first one.
const MaxPinFallbacks = 7

// MinReleaseTimeout and MaxReleaseTimeout bound the release timeout of a drain.
const (
	MinReleaseTimeout = 10 * time.Millisecond
	MaxReleaseTimeout = time.Minute
)

// MaxIdleFirst is the longest duration of Action.IdleFirst.
const MaxIdleFirst = 24 * time.Hour

// ServerName is the Server header of every response of an admin port. Clients use it to detect an
// address that is not an admin port.
const ServerName = "shardway-admin"

// ActionTimeout limits an action, including the forwarding to the leader.
const ActionTimeout = 30 * time.Second

// MaxWait is the longest time that a long poll may wait.
const MaxWait = time.Minute
