package ack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"shardway/shardmap"
)

// beforeInstances returns the state of a cluster that has been created by a program without app
// instances.
func beforeInstances(t *testing.T) *State {
	t.Helper()
	bootstrap := EncodeBootstrap("c", 8, DefaultTiming())
	bootstrap[0] = byte(InstancesFormatVersion - 1)
	s, outcome, err := NewState().Apply(1, 1, bootstrap)
	if err != nil || outcome != OutcomeBootstrapped || s.FormatVersion() != InstancesFormatVersion-1 {
		t.Fatalf("format version %d after the bootstrap, %v", s.FormatVersion(), err)
	}
	return s
}

// wantWithInstances returns a map in which a node has two app instances.
func wantWithInstances() *shardmap.Map {
	return shardmap.Assign(shardmap.New(8), []shardmap.Member{{ID: "a", Weight: 1, Instances: shardmap.InstancesUpTo(2)}}, shardmap.Policy{})
}

func TestNewClusterStartsAtNewestFormatVersion(t *testing.T) {
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 8, DefaultTiming()))
	if err != nil || s.FormatVersion() != MaxFormatVersion {
		t.Fatalf("format version %d, %v", s.FormatVersion(), err)
	}
	again := EncodeBootstrap("d", 8, DefaultTiming())
	again[0] = byte(MinFormatVersion)
	if s, _, err = s.Apply(2, 1, again); err != nil || s.FormatVersion() != MaxFormatVersion || s.ClusterID() != "c" {
		t.Errorf("format version %d of cluster %s after another bootstrap, %v", s.FormatVersion(), s.ClusterID(), err)
	}
}

// A program without instances considers each of these encodings corrupt, or would misread it.
func TestInstancesNeedTheirFormatVersion(t *testing.T) {
	s := beforeInstances(t)
	proposal := ProposalEntry{Term: 1, Want: wantWithInstances()}
	if _, err := EncodeProposal(s.FormatVersion(), proposal); !errors.Is(err, errInstances) {
		t.Errorf("proposal encoded: %v", err)
	}
	encoded, err := EncodeProposal(InstancesFormatVersion, proposal)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = s.Apply(2, 1, encoded); !errors.Is(err, ErrCorrupt) {
		t.Errorf("proposal of the next format version applied: %v", err)
	}
	encoded[0] = byte(InstancesFormatVersion - 1)
	if _, _, err = s.Apply(2, 1, encoded); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), errInstances.Error()) {
		t.Errorf("proposal with instances applied: %v", err)
	}
	drain := []Change{{Kind: ChangeDrain, Node: shardmap.InstanceName("a", 1)}}
	if err = s.CheckChanges(drain); !errors.Is(err, ErrChange) {
		t.Errorf("drain of an instance accepted: %v", err)
	}

	raised, outcome, err := s.Apply(2, 1, EncodeFormatVersion(s.FormatVersion(), FormatVersionEntry{Term: 1, Version: InstancesFormatVersion}))
	if err != nil || outcome != OutcomeFormatVersionRaised {
		t.Fatalf("not raised: %d, %v", outcome, err)
	}
	encoded[0] = byte(InstancesFormatVersion)
	if raised, outcome, err = raised.Apply(3, 1, encoded); err != nil || outcome != OutcomeProposed || !raised.Proposed().HasInstances() {
		t.Fatalf("proposal not applied after the raise: %d, %v", outcome, err)
	}
	if err = raised.CheckChanges(drain); err != nil {
		t.Errorf("drain of an instance refused: %v", err)
	}
	snapshot, err := raised.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = DecodeState(snapshot); err != nil {
		t.Errorf("snapshot not read: %v", err)
	}
	snapshot[0] = byte(InstancesFormatVersion - 1)
	if _, err = DecodeState(snapshot); !errors.Is(err, ErrCorrupt) {
		t.Errorf("snapshot with instances read at the format version before: %v", err)
	}
}

func TestHeartbeatWithoutInstancesKeepsItsEncoding(t *testing.T) {
	heartbeat := Heartbeat{FormatVersion: InstancesFormatVersion - 1, Node: "a", Server: "a/1", Boot: 1, Number: 1, Weight: 1}
	before, _ := heartbeat.MarshalBinary()
	heartbeat.FormatVersion = InstancesFormatVersion
	after, _ := heartbeat.MarshalBinary()
	if !slices.Equal(before[1:], after[1:]) {
		t.Errorf("%x became %x", before, after)
	}
	heartbeat.Instances, heartbeat.InstancesStartedAfter = shardmap.InstancesUpTo(2), []shardmap.Epoch{7}
	heartbeat.UnhealthyInstances, heartbeat.RemovedInstances = heartbeat.UnhealthyInstances.With(1), heartbeat.RemovedInstances.With(31)
	withInstances, _ := heartbeat.MarshalBinary()
	var read Heartbeat
	if err := read.UnmarshalBinary(withInstances); err != nil || read.Instances != heartbeat.Instances {
		t.Errorf("instances %b, %v", read.Instances, err)
	}
	if !read.UnhealthyInstances.Has(1) || read.UnhealthyInstances.Has(0) || !read.RemovedInstances.Has(31) || read.RemovedInstances.Has(1) {
		t.Errorf("unhealthy instances %b, removed instances %b", read.UnhealthyInstances, read.RemovedInstances)
	}
	withInstances[0] = byte(InstancesFormatVersion - 1)
	if err := read.UnmarshalBinary(withInstances); !errors.Is(err, ErrCorrupt) {
		t.Errorf("heartbeat with instances read at the format version before: %v", err)
	}
	heartbeat.FormatVersion = InstancesFormatVersion - 1
	if omitted, _ := heartbeat.MarshalBinary(); !slices.Equal(omitted, before) {
		t.Errorf("instances encoded at the format version before: %x", omitted)
	}
}

// The leader reads at most MaxMessage bytes.
func TestLargestHeartbeatFitsMaxMessage(t *testing.T) {
	longID := strings.Repeat("n", maxText)
	heartbeat := Heartbeat{
		FormatVersion: InstancesFormatVersion, Node: shardmap.NodeID(longID), Server: longID + "/" + strings.Repeat("d", maxText-1),
		Boot: maxUint, Nonce: maxUint, Number: maxUint, Echo: Echo{Term: maxUint, Number: maxUint}, Term: maxUint, Applied: maxUint, Acked: maxUint,
		AppStartedAfter: maxUint, KeyConfigDigest: maxUint, Weight: maxWeight, Zone: longID, ReleasesDigest: [32]byte{1}, UnreleasedMoves: MaxShards, WaitingShards: MaxShards,
		Instances: shardmap.InstancesUpTo(shardmap.MaxInstances), InstancesStartedAfter: slices.Repeat([]shardmap.Epoch{maxUint}, shardmap.MaxInstances-1),
		UnhealthyInstances: maxUint32, RemovedInstances: maxUint32,
	}
	for i := range MaxUnreachable {
		heartbeat.Unreachable = append(heartbeat.Unreachable, shardmap.NodeID(fmt.Sprintf("%0*d", maxText, i)))
	}
	for i := range MaxRoles {
		heartbeat.Roles = append(heartbeat.Roles, strings.Repeat("r", MaxRole-2)+string(rune('a'+i))+"x")
	}
	for i := range MaxUnacquired {
		shard := shardmap.Shard((i+1)*MaxShards/MaxUnacquired - 1)
		heartbeat.UnacquiredShards, heartbeat.KeptShards = append(heartbeat.UnacquiredShards, shard), append(heartbeat.KeptShards, shard)
	}
	encoded, err := heartbeat.MarshalBinary()
	if err != nil || len(encoded) > MaxMessage {
		t.Errorf("%d bytes, %v", len(encoded), err)
	}
	if err = new(Heartbeat).UnmarshalBinary(encoded); err != nil {
		t.Error(err)
	}
}
