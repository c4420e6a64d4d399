package inflight

import "shardway/proxy/route"

// StallDetector detects that a connection still runs the same request as a while ago.
type StallDetector struct {
	lastRun uint32 // number of the run at the last call of IsStalled
}

// IsStalled reports whether the run in slot is the same as at the last call and was forwarded to another node, and
// returns that node.
func (detector *StallDetector) IsStalled(slot *Slot) (node string, stalled bool) {
	nodeName := slot.NodeName() // loaded before the run, so it is not the node of a later run
	current := slot.Load()
	isSameRun := current.Number == detector.lastRun
	detector.lastRun = current.Number
	runsAtNode := current.Kind == route.Remote && !current.IsCancelled() && nodeName != ""
	if isSameRun && runsAtNode {
		return nodeName, true
	}
	return "", false
}
