package ack_test

// mutantsOfLevels raise the level although a server does not support it.
func mutantsOfLevels() []mutant {
	all := []mutant{
		{
			name: "level: raised with a silent server", caught: "raised while",
			edits: in("ack/leader.FormatUpgrade.Update", "= format.Silent || format.MaxVersion < view.Next", "= !PLANTED && format.Silent || format.MaxVersion < view.Next"),
		},
		{
			name: "level: raised by reports of an earlier term", caught: "raised though|raised above|raised 0s",
			edits: in("ack/leader.FormatUpgrade.RecordReport", "report.Term != u.term ||", "!PLANTED && report.Term != u.term ||"),
		},
		{
			name: "level: raised by reports of an earlier process", caught: "raised|not raised",
			edits: in("ack/leader.FormatUpgrade.supportedBy", "!ok || report.Boot != view.Heartbeat.Boot || report.Nonce != view.Heartbeat.Nonce", "!ok || !PLANTED && (report.Boot != view.Heartbeat.Boot || report.Nonce != view.Heartbeat.Nonce)"),
		},
		{
			name: "level: raised before its time", caught: "raised",
			edits: in("ack/leader.FormatUpgrade.Raise", "view.RemainingWait > 0 && !immediately", "view.RemainingWait > 0 && !immediately && !PLANTED"),
		},
		{
			name: "level: the time of a new process counts from the previous process", caught: "raised",
			edits: in("ack/leader.FormatUpgrade.RecordReport", "	clear(u.supportedSince)\n", "	if !PLANTED {\n		clear(u.supportedSince)\n	}\n"),
		},
		{
			name: "level: a server below the one in force is added", caught: "added",
			edits: in("ack/leader.FormatUpgrade.Admits", "return maxVersion >= inForce", "return PLANTED || maxVersion >= inForce"),
		},
		{
			name: "level: a decision of an earlier term counts", caught: "raised in term",
			edits: in("ack.State.applyFormatVersion", "|| term != entry.Term ||", "|| !PLANTED && term != entry.Term ||"),
		},
	}
	for _, plant := range levelPlants() {
		all = append(all, mutant{name: "level: " + plant, drive: plant, caught: "added|raised|not raised"})
	}
	for i := range all {
		all[i].levels = true
	}
	return all
}

func pointsOfLevels() []point {
	return []point{
		{of: "levels", clause: "a silent server prevents it", planted: []string{"level: raised with a silent server"}},
		{of: "levels", clause: "every server has reported to this leader in this term", planted: []string{
			"level: raised by reports of an earlier term", "level: one Levels for all terms",
		}},
		{of: "levels", clause: "its present process has", planted: []string{"level: raised by reports of an earlier process"}},
		{of: "levels", clause: "and finalize-after has passed since the last report", planted: []string{
			"level: raised before its time", "level: the time of a new process counts from the previous process",
		}},
		{of: "levels", clause: "an entry counts only in the term that decided on it", planted: []string{"level: a decision of an earlier term counts"}},
		{of: "levels", clause: "a server below the level in force is not added", planted: []string{
			"level: a server below the one in force is added", "level: a server is added while a raise is under way", "level: a server is added before the barrier",
		}},
	}
}
