package ack_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// reasonsOf returns the reasons after the changes, which are applied one after the other.
func reasonsOf(t *testing.T, changes ...ack.Change) map[ack.PolicyItem]string {
	t.Helper()
	policy := &ack.Policy{}
	for i, change := range changes {
		var err error
		if policy, err = policy.With(uint64(i+1), []ack.Change{change}); err != nil {
			t.Fatal(err)
		}
	}
	return policy.Reasons
}

func TestReasonLastsAsLongAsItsEntry(t *testing.T) {
	drained, pinned := ack.PolicyItem{Kind: ack.ChangeDrain, Node: "b"}, ack.PolicyItem{Kind: ack.ChangePin, Shard: 3}
	because := func(change ack.Change, reason string) ack.Change {
		change.Reason = reason
		return change
	}
	pin := ack.Change{Kind: ack.ChangePin, Shard: 3, Node: "b"}
	gradual := ack.Change{Kind: ack.ChangeDrainGradually, Node: "b", Duration: time.Second}
	for name, tc := range map[string]struct {
		changes []ack.Change
		want    map[ack.PolicyItem]string
	}{
		"a drain":                         {[]ack.Change{because(drain("b"), "disk")}, map[ack.PolicyItem]string{drained: "disk"}},
		"a gradual drain":                 {[]ack.Change{because(gradual, "disk")}, map[ack.PolicyItem]string{drained: "disk"}},
		"the same again":                  {[]ack.Change{because(drain("b"), "disk"), because(drain("b"), "disk")}, map[ack.PolicyItem]string{drained: "disk"}},
		"another reason":                  {[]ack.Change{because(drain("b"), "disk"), because(drain("b"), "rack")}, map[ack.PolicyItem]string{drained: "rack"}},
		"no reason any more":              {[]ack.Change{because(drain("b"), "disk"), drain("b")}, nil},
		"an end with a reason":            {[]ack.Change{because(drain("b"), "disk"), because(uncordon("b"), "done")}, nil},
		"a pin":                           {[]ack.Change{because(pin, "cache"), because(drain("b"), "disk"), uncordon("b")}, map[ack.PolicyItem]string{pinned: "cache"}},
		"an unpin":                        {[]ack.Change{because(pin, "cache"), {Kind: ack.ChangeUnpin, Shard: 3}}, nil},
		"a removed node":                  {[]ack.Change{because(pin, "cache"), because(drain("b"), "disk"), {Kind: ack.ChangeForgetNode, Node: "b"}}, nil},
		"the configured weight":           {[]ack.Change{because(ack.Change{Kind: ack.ChangeWeight, Node: "b"}, "large")}, nil},
		"a weight":                        {[]ack.Change{because(ack.Change{Kind: ack.ChangeWeight, Node: "b", Weight: 2}, "large")}, map[ack.PolicyItem]string{{Kind: ack.ChangeWeight, Node: "b"}: "large"}},
		"a pause":                         {[]ack.Change{because(pause(time.Hour), "night")}, map[ack.PolicyItem]string{{Kind: ack.ChangePause}: "night"}},
		"the end of a pause":              {[]ack.Change{because(pause(time.Hour), "night"), {Kind: ack.ChangeResume}}, nil},
		"a quarantine":                    {[]ack.Change{because(quarantine(1, 0), "loops")}, map[ack.PolicyItem]string{{Kind: ack.ChangeQuarantine, KeyFingerprint: quarantine(1, 0).KeyFingerprint}: "loops"}},
		"the end of a quarantine":         {[]ack.Change{because(quarantine(1, 0), "loops"), {Kind: ack.ChangeEndQuarantine, KeyFingerprint: quarantine(1, 0).KeyFingerprint}}, nil},
		"a restarted app adds no entry":   {[]ack.Change{{Kind: ack.ChangeAppRestarted, Node: "b", Reason: "upgrade"}}, nil},
		"a cordon":                        {[]ack.Change{because(ack.Change{Kind: ack.ChangeCordon, Node: "b"}, "old")}, map[ack.PolicyItem]string{{Kind: ack.ChangeCordon, Node: "b"}: "old"}},
		"a drain of one app instance":     {[]ack.Change{because(drain("b/2"), "leaks")}, map[ack.PolicyItem]string{{Kind: ack.ChangeDrain, Node: "b/2"}: "leaks"}},
		"a drain of another app instance": {[]ack.Change{because(drain("b/2"), "leaks"), uncordon("b/3")}, map[ack.PolicyItem]string{{Kind: ack.ChangeDrain, Node: "b/2"}: "leaks"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reasonsOf(t, tc.changes...); !maps.Equal(got, tc.want) {
				t.Errorf("reasons %v, want %v", got, tc.want)
			}
		})
	}
}

// When the time of a gradual drain is over, the leader replaces it by an ordinary drain.
func TestGradualDrainKeepsItsReason(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrainGradually, Node: "c", Duration: time.Second, Reason: "disk"})
	s.until("the drain has ended", func() bool { return s.state.Policy().Drained["c"] })
	if got := s.state.Policy().Reasons; got[ack.PolicyItem{Kind: ack.ChangeDrain, Node: "c"}] != "disk" {
		t.Errorf("reasons %v", got)
	}
}

func TestReasonsSurviveSnapshotsAndRecovery(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "c", Reason: "disk"}, ack.Change{Kind: ack.ChangePin, Shard: 2, Node: "b", Reason: "cache"})
	s.until("asked", func() bool { return len(s.state.Policy().Reasons) == 2 })
	b, err := s.state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ack.DecodeState(b)
	if err != nil || !maps.Equal(again.Policy().Reasons, s.state.Policy().Reasons) {
		t.Fatalf("snapshot: %v, %v", err, again)
	}
	recovered, err := again.Recovered("another", again.MaxIndex()+ack.MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := recovered.Policy().Reasons, (map[ack.PolicyItem]string{{Kind: ack.ChangePin, Shard: 2}: "cache"}); !maps.Equal(got, want) {
		t.Errorf("recovered: reasons %v, want %v", got, want)
	}
	if len(again.Policy().Reasons) != 2 {
		t.Error("the recovery has changed the state that it started from")
	}
}

// An entry with an invalid reason would stop every node that applies it.
func TestInvalidReasonsAreRefused(t *testing.T) {
	s := serving(t, "a", "b")
	for _, reason := range []string{strings.Repeat("x", ack.MaxReason+1), "two\nlines", "\x00", "\xff", "\u0085"} {
		if err := s.state.CheckChanges([]ack.Change{{Kind: ack.ChangeDrain, Node: "b", Reason: reason}}); err == nil {
			t.Errorf("the reason %q is accepted", reason)
		}
	}
	if err := s.state.CheckChanges([]ack.Change{{Kind: ack.ChangeDrain, Node: "b", Reason: strings.Repeat("x", ack.MaxReason)}}); err != nil {
		t.Error(err)
	}
}

// Programs of the earlier format version cannot read reasons, so its entries have none.
func TestEarlierFormatVersionHasNoReasons(t *testing.T) {
	with := ack.PolicyEntry{Term: 1, Changes: []ack.Change{{Kind: ack.ChangeDrain, Node: "b", Reason: "disk"}}}
	without := ack.PolicyEntry{Term: 1, Changes: []ack.Change{{Kind: ack.ChangeDrain, Node: "b"}}}
	if string(ack.EncodePolicyChange(ack.MinFormatVersion, with)) != string(ack.EncodePolicyChange(ack.MinFormatVersion, without)) {
		t.Error("an entry of the earlier format version contains a reason")
	}
}

// Reasons count for the bound of the policy.
func TestReasonsAreBounded(t *testing.T) {
	policy, err := &ack.Policy{}, error(nil)
	n := 0
	for ; err == nil && n < 1000; n++ {
		policy, err = policy.With(1, []ack.Change{{Kind: ack.ChangePin, Shard: shardmap.Shard(n), Node: "b", Reason: strings.Repeat("x", ack.MaxReason)}})
	}
	if n < 250 || n > 350 {
		t.Errorf("%d pins with a reason of 200 bytes, then %v", n, err)
	}
}
