package node_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"shardway/internal/overlay"
)

// rule is a rule that the machines of package ack cannot enforce themselves, because it concerns the order in which a node uses Raft, its
// clock and the network. Without the rule, the named test must fail.
type rule struct {
	name, test string
	edits      []overlay.Edit
}

func edit(decl, old, changed string) []overlay.Edit {
	return []overlay.Edit{{Decl: decl, Old: old, New: changed}}
}

func rules() []rule {
	return []rule{
		{
			name: "the echo is read before the term (reason 6)", test: "TestHeartbeatReadsItsEchoBeforeTheTerm",
			edits: append(edit("ack/agent.Agent.sendHeartbeat", "	number, echo := a.holder.NextHeartbeat(now)\n", "	var early uint64\n	if PLANTED {\n		early = a.options.RaftTerm()\n	}\n	number, echo := a.holder.NextHeartbeat(now)\n"),
				edit("ack/agent.Agent.sendHeartbeat", "	raftTerm := a.options.RaftTerm()\n", "	raftTerm := map[bool]func() uint64{true: func() uint64 { return early }, false: a.options.RaftTerm}[PLANTED]()\n")...),
		},
		{
			name: "a leader reads its term of its own Raft server, each time (reason 5)", test: "TestLeaderGrantsNothingOnceItsRaftKnowsANewerTerm",
			edits: edit("ack/leader.Driver.stepWithInputs", "Term: d.options.Raft.Term()}", "Term: map[bool]uint64{true: d.options.Leader.Term, false: d.options.Raft.Term()}[PLANTED]}"),
		},
		{
			name: "a redial counts from when it began", test: "TestRedialBegunBeforeTheElectionIsNoEvidence",
			edits: edit("node/crashdetect.Detector.redial", "!d.onRefused(node, process, dialedAt)", "!d.onRefused(node, process, map[bool]time.Duration{true: d.clock.Precise(), false: dialedAt}[PLANTED])"),
		},
		{
			name: "one that began before the election is made again", test: "TestRedialBegunBeforeTheElectionIsNoEvidence",
			edits: edit("node.Node.onDialRefused", "	return dialedAt < leadership.StartedAt() // a redial before the election is no evidence\n", "	return dialedAt < leadership.StartedAt() && !PLANTED // a redial before the election is no evidence\n"),
		},
		{
			name: "what a redial showed before the election counts for nothing", test: "TestRedialBegunBeforeTheElectionIsNoEvidence",
			edits: edit("ack/leader.Leader.applyMessage", "		if m.RedialStartedAt >= l.in.electedAt {\n", "		if PLANTED || m.RedialStartedAt >= l.in.electedAt {\n"),
		},
		{
			name: "a departure is no evidence while heartbeats arrive", test: "TestDepartureOfANodeWithHeartbeatsIsNoEvidence",
			edits: edit("node/heartbeat.Server.CloseSilentStreams", "silence / silenceChecks", "silence / map[bool]time.Duration{true: 100 * silenceChecks, false: silenceChecks}[PLANTED]"),
		},
		{
			name: "a node that waits for an approval is not added", test: "TestJoinIsApprovedByHandThroughLeaderChanges",
			edits: edit("node/membership.Reconciler.mayAdd", "	return !r.approvesJoins() ||", "	return PLANTED || !r.approvesJoins() ||"),
		},
		{
			name: "a refused node reports the reason", test: "TestRefusedAndExpiredNodesStayOutside",
			edits: edit("node/membership.Reconciler.requestJoin", "Reason: record.Reason,", "Reason: map[bool]string{false: record.Reason}[PLANTED],"),
		},
		{
			name: "a join request expires", test: "TestRefusedAndExpiredNodesStayOutside",
			edits: edit("node/membership.Reconciler.recordJoinStages", "	if len(changes) == 0 {", "	if len(changes) == 0 || PLANTED && changes[0].Kind == join.Expire {"),
		},
		{
			name: "a silent member is suspect while its shards stay", test: "TestUnresponsiveMemberIsSuspectBeforeItFails",
			edits: edit("node/adminapi.missedHeartbeatsState", "	case view.Crashed || isExcluded ||", "	case PLANTED || view.Crashed || isExcluded ||"),
		},
		{
			name: "an app instance that fails for a moment is no finding", test: "TestFailedInstanceIsInStatusEventsAndMetrics",
			edits: edit("node/findings.nodeDebouncers.smoothInstances", "return !counts[instance.Number] })", "return !counts[instance.Number] && !PLANTED })"),
		},
		{
			name: "the leader reports the health of the app instances of other nodes", test: "TestFailedInstanceIsInStatusEventsAndMetrics",
			edits: edit("node/leaderloop.Loop.recordInstanceHealth", "	if !known ||", "	if PLANTED || !known ||"),
		},
		{
			name: "a move within a node is neither gained nor released", test: "TestFailedInstanceIsInStatusEventsAndMetrics",
			edits: edit("node/eventlog.MapChangeRecorder.compare", "		case list.From == list.To:", "		case list.From == list.To && !PLANTED:"),
		},
		{
			name: "an app instance that is no longer configured is no failure", test: "TestRemovedInstanceIsNotListed",
			edits: edit("node/appinstance.Selection.AddTo", "		case check.Absent:\n", "		case check.Absent && !PLANTED:\n"),
		},
		{
			name: "the numbers of configured app instances are not free", test: "TestRemovedInstanceIsNotListed",
			edits: edit("node/appinstance.Selection.recordFree", "		if s.health.At(i) == nil && mayReuse(", "		if PLANTED && i == 0 || s.health.At(i) == nil && mayReuse("),
		},
		{
			name: "step-down --to asks only the named node", test: "TestStepDownRefusesNodesThatCannotLead",
			edits: edit("node/leaderloop.Leadership.transferTo", "!IsAlive(member) || member.Heartbeat.Goodbye {", "!PLANTED && (!IsAlive(member) || member.Heartbeat.Goodbye) {"),
		},
		{
			name: "a former leader tells a transfer from an election", test: "TestLeaderLostHasAReason",
			edits: edit("node/consensus.Raft.SteppedDown", "r.transferTerm.Load() == term", "r.transferTerm.Load() == term && !PLANTED"),
		},
		{
			name: "an announced service is no node", test: "TestAnnouncedServiceNeverBecomesANode",
			edits: edit("node/gossip.isNode", "nodelabel.IsID(name)", "(PLANTED || nodelabel.IsID(name))"),
		},
		{
			name: "a member that is not a node does not take the ID of a node", test: "TestAnnouncedServiceNeverBecomesANode",
			edits: edit("node/gossip.mergeDelegate.takesNodeID", "d.isServer(member.Name)", "d.isServer(member.Name) && !PLANTED"),
		},
		{
			name: "a service announces no endpoint of a node", test: "TestAnnouncedServiceNeverBecomesANode",
			edits: edit("node/cluster.buildDirectory", "if !member.Node {", "if !member.Node && !PLANTED {"),
		},
		{
			name: "Raft waits for as long as it was told", test: "TestLongRaftTimeoutKeepsTheLeaderOfDistantNodes",
			edits: edit("node.Node.openRaft", "HeartbeatTimeout: n.options.RaftTimeout,", "HeartbeatTimeout: map[bool]time.Duration{false: n.options.RaftTimeout}[PLANTED],"),
		},
	}
}

// TestEveryRuleOfTheNodeIsNeeded builds the tests without each of the rules.
func TestEveryRuleOfTheNodeIsNeeded(t *testing.T) {
	var edits [][]overlay.Edit
	for _, r := range rules() {
		edits = append(edits, r.edits)
	}
	binary := overlay.BuildTests(t, "..", "node", edits)
	play := func(mistake string, tests ...string) (out []byte, err error) {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run=^("+strings.Join(tests, "|")+")$")
		cmd.Env = append(os.Environ(), overlay.Switch+"="+mistake)
		return cmd.CombinedOutput()
	}
	var all []string
	for i, r := range rules() {
		all = append(all, r.test)
		// Each run of a test differs a little from the other runs.
		var out []byte
		var err error
		for range 3 {
			if out, err = play(overlay.Number(i), r.test); err != nil {
				break
			}
		}
		if err == nil || !bytes.Contains(out, []byte("--- FAIL: "+r.test)) {
			t.Errorf("without the rule %q %s passes: %v\n%s", r.name, r.test, err, out)
		}
	}
	if out, err := play("", all...); err != nil {
		t.Errorf("with all rules: %v\n%s", err, out)
	}
}
