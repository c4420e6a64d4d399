package join_test

import (
	"testing"

	"shardway/internal/overlay"
)

// TestEachMutantFailsATest plants a violation of each rule about join requests.
func TestEachMutantFailsATest(t *testing.T) {
	const rules, stages = "TestEveryScheduleKeepsTheRules", "TestApprovedServerPassesAllStages"
	const apply, approval = "ack/join.Records.apply", "ack/join.Approval."
	overlay.TestMutants(t, "../..", "ack/join", []overlay.Mutant{
		{Rule: "a server that waits may be added", Found: stages, Decl: "ack/join.Approval.MayAdd", Old: "records.IsAdmitted(server)", New: "(PLANTED || records.IsAdmitted(server))"},
		{Rule: "a refused server may be added", Found: "TestRefusedServerIsNotAdded", Decl: "ack/join.Stage.IsAdmitted", Old: "s >= Accepted", New: "(s >= Accepted || PLANTED && s == Refused)"},
		{Rule: "a refused server requests again", Found: "TestRefusedServerIsNotAdded", Decl: approval + "RequestChange", Old: "record.Stage == Expired && boot", New: "(record.Stage == Expired || PLANTED && record.Stage == Refused) && boot"},
		{Rule: "a request never expires", Found: "TestRequestExpires", Decl: approval + "expirations", Old: "now-seen.seenAt >= a.options.Timeout", New: "!PLANTED && now-seen.seenAt >= a.options.Timeout"},
		{Rule: "a request expires early after an election", Found: "TestRequestExpires", Decl: approval + "expirations", Old: "		if !isKnown || seen.ticket", New: "		if PLANTED && !isKnown {\n			seen = sighting{ticket: record.Ticket}\n		} else if !isKnown || seen.ticket"},
		{Rule: "an expired request is approved", Found: "TestRequestExpires", Decl: "ack/join.Decide", Old: "	case record.Stage == Expired:", New: "	case !PLANTED && record.Stage == Expired:"},
		{Rule: "an expired request is renewed by the same process", Found: "TestRequestExpires", Decl: approval + "RequestChange", Old: "boot > record.Boot", New: "(PLANTED || boot > record.Boot)"},
		{Rule: "the end of an earlier request ends the current one", Found: "TestRequestExpires", Decl: apply, Old: "record.Ticket != change.Ticket ||", New: "!PLANTED && record.Ticket != change.Ticket ||"},
		{Rule: "another disk inherits the approval", Found: rules, Decl: "ack/join.Records.apply", Old: "		rs.set(Record{Server: change.Server, Ticket: index, Boot: change.Boot}, Requested, change)\n", New: "		if other, isAdmitted := rs.Admitted(NodeOf(change.Server)); PLANTED && isAdmitted {\n			rs.set(Record{Server: change.Server, Ticket: index, Boot: change.Boot}, other.Stage, change)\n			return true\n		}\n		rs.set(Record{Server: change.Server, Ticket: index, Boot: change.Boot}, Requested, change)\n"},
		{Rule: "a decision applies to another disk", Found: rules, Decl: "ack/join.Decide", Old: "	case decision.Ticket != 0 && decision.Ticket != record.Ticket:", New: "	case !PLANTED && decision.Ticket != 0 && decision.Ticket != record.Ticket:"},
		{Rule: "two disks of a node are admitted", Found: rules, Decl: apply, Old: "		if change.Kind == Accept {\n			rs.deleteOthers", New: "		if change.Kind == Accept && !PLANTED {\n			rs.deleteOthers"},
		{Rule: "a returning member needs an approval", Found: stages, Decl: approval + "RequestChange", Old: "	if exists && !isRenewed {", New: "	if exists && !isRenewed && !(PLANTED && record.Stage == Active) {"},
		{Rule: "the old disk is imported instead of the accepted one", Found: "TestReplacedDiskIsANewRequest", Decl: "ack/join.dueChange", Old: "isKnown && other.Stage == Accepted", New: "isKnown && other.Stage == Accepted && !PLANTED"},
		{Rule: "open requests have no limit", Found: "TestNumberOfRecordsIsBounded", Decl: "ack/join.Records.mayRequest", Old: "	return rs.Count(Requested) < MaxOpen", New: "	return PLANTED || rs.Count(Requested) < MaxOpen"},
		{Rule: "each node is a bootstrap node", Found: "TestBootstrapNodesNeedNoApproval", Decl: approval + "bootstrapChanges", Old: "record.Stage != Requested || len(nodes)", New: "record.Stage != Requested || !PLANTED && len(nodes)"},
		{Rule: "the bootstrap begins again", Found: "TestBootstrapNodesNeedNoApproval", Decl: approval + "DueChanges", Old: "	if !records.BootstrapEnded() {", New: "	if !records.BootstrapEnded() || PLANTED {"},
		{Rule: "a snapshot loses the reason", Found: stages, Decl: "ack/join.Records.Append", Old: "		buf = appendText(buf, record.Reason)", New: "		if PLANTED {\n			record.Reason = \"\"\n		}\n		buf = appendText(buf, record.Reason)"},
		{Rule: "a removed node stays admitted", Found: "TestRemovalEndsTheAdmission|" + rules, Decl: "ack/join.Records.WithoutNode", Old: "record.Node() == node })", New: "!PLANTED && record.Node() == node })"},
	})
}
