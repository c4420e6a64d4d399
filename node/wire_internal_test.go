package node

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/election"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node/adminapi"
	"shardway/node/campaign"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/leaderloop"
	"shardway/node/membership"
	"shardway/node/rotation"
	"shardway/proxy/loadstats"
	"shardway/proxy/poison"
	"shardway/shardmap"
)

var updateWire = flag.Bool("wire.update", false, "write the golden files of control messages anew")

// controlMessages returns all types that nodes send each other on control streams.
func controlMessages() []any {
	return []any{
		control.Request{},
		[]control.Reply{},
		[]crashdetect.CrashReport{},
		leaderloop.StagedIdleRequest{},
		[]leaderloop.WireMember{},
		[]crashdetect.Suspect{},
		[]diagnosis.Difference{},
		campaign.WireReport{},
		leaderloop.IdleReport{},
		adminapi.RunningReport{},
		adminapi.WebSocketReport{},
		rotation.Proven{},
		membership.Process{},
		api.TimingState{},
		api.UpgradeState{},
		api.Plan{},
		api.DrainState{},
		diagnosis.Report{},
		loadstats.Load{},
		rotation.Step{},
	}
}

// A field without a tag is sent under its Go name: renaming it would change the format.
func TestControlMessagesNameTheirFields(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(x reflect.Type) {
		switch {
		case seen[x] || x == reflect.TypeFor[time.Time]() || x == reflect.TypeFor[json.RawMessage]():
			return
		case x.Implements(reflect.TypeFor[json.Marshaler]()), reflect.PointerTo(x).Implements(reflect.TypeFor[json.Marshaler]()):
			return
		}
		seen[x] = true
		if k := x.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Array || k == reflect.Map {
			look(x.Elem())
			return
		} else if k != reflect.Struct {
			return
		}
		for f := range x.Fields() {
			name := f.Tag.Get("json")
			if name == "-" || !f.IsExported() && !f.Anonymous {
				continue // encoding/json ignores it
			}
			if name == "" && !f.Anonymous {
				t.Errorf("%s.%s has no json tag", x, f.Name)
			}
			look(f.Type)
		}
	}
	for _, m := range controlMessages() {
		look(reflect.TypeOf(m))
	}
	if len(seen) < len(controlMessages()) {
		t.Errorf("only %d types were looked at", len(seen))
	}
}

func wireViews() []leader.MemberView {
	return []leader.MemberView{
		{
			Node: "a", From: "a/1", SinceHeartbeat: 20 * time.Millisecond, LinkWorks: true, Eligible: true, KeptUnhealthy: true, HoldTime: 3 * time.Second, DefersMoves: true,
			Heartbeat: ack.Heartbeat{
				FormatVersion: ack.MinFormatVersion, Node: "a", Server: "a/1", Boot: 3, Nonce: 1 << 63, Number: 17, Echo: ack.Echo{Term: 4, Number: 16}, Term: 4,
				Applied: 9, Acked: 10, Interval: 50 * time.Millisecond, Weight: 100, Zone: "z1", Unhealthy: true,
			},
		},
		{Node: "b", SinceHeartbeat: -1, Silent: true, Crashed: true, Restarting: true, ProcessGone: true},
	}
}

func TestMembersAreSentWhole(t *testing.T) {
	golden(t, "views", func() (any, error) { return leaderloop.WireMembers(wireViews()) }, func(m []leaderloop.WireMember) {
		if v, err := leaderloop.MemberViews(m); err != nil || !reflect.DeepEqual(v, wireViews()) {
			t.Errorf("read as %+v, %v, want %+v", v, err, wireViews())
		}
	})
	// Every field of a view is sent.
	v := reflect.New(reflect.TypeFor[leader.MemberView]()).Elem()
	for _, f := range v.Fields() {
		if k := f.Kind(); k == reflect.Struct {
			f.Set(reflect.ValueOf(wireViews()[0].Heartbeat))
		} else if x := reflect.ValueOf(7); k == reflect.Int64 {
			f.Set(x.Convert(f.Type()))
		} else if k == reflect.Bool {
			f.SetBool(true)
		} else if k == reflect.Slice {
			f.Set(reflect.ValueOf([]shardmap.NodeID{"x"}).Convert(f.Type()))
		} else {
			f.SetString("x")
		}
	}
	view, ok := reflect.TypeAssert[leader.MemberView](v)
	if !ok {
		t.Fatalf("%T is no view", v.Interface())
	}
	all := []leader.MemberView{view}
	m, err := leaderloop.WireMembers(all)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := leaderloop.MemberViews(m); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v is read as %+v, %v", all, got, err)
	}
}

// A leader that sends no members is different from a leader that knows of none.
func TestMembersMissingInResponseStayUnknown(t *testing.T) {
	m, err := leaderloop.WireMembers(nil)
	if b, jerr := json.Marshal(m); err != nil || jerr != nil || string(b) != "null" {
		t.Errorf("%s, %v, %v, want null", b, err, jerr)
	}
	if v, err := leaderloop.MemberViews(nil); v != nil || err != nil {
		t.Errorf("%v, %v, want nil", v, err)
	}
	if v, err := leaderloop.MemberViews([]leaderloop.WireMember{{Node: "a", Heartbeat: []byte{0}}}); err == nil {
		t.Errorf("a corrupt heartbeat is read as %v", v)
	}
}

func TestMissingIsSentWhole(t *testing.T) {
	want := election.Report{LeaderTerm: 3, Log: election.LogEnd{Term: 2, Index: 99}, Candidate: true, CurrentTerm: 4}
	golden(t, "missing", func() (any, error) { return campaign.WireReportOf(want), nil }, func(w campaign.WireReport) {
		if got := w.Report(); got != want {
			t.Errorf("read as %+v, want %+v", got, want)
		}
	})
}

func TestImplicatedKeysAreSentWhole(t *testing.T) {
	want := []crashdetect.CrashReport{{Node: "a", Boot: 3, Keys: []poison.Implicated{{Shard: 7, Hash: 1<<64 - 1}}, AgoMS: 12}}
	golden(t, "implicated", func() (any, error) {
		b, err := json.Marshal(want)
		return control.Request{Kind: control.Implicated, Implicated: b}, err
	}, func(q control.Request) {
		if got, err := control.Decode[[]crashdetect.CrashReport](q.Implicated); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("read as %+v, %v, want %+v", got, err, want)
		}
	})
}

// golden compares a message with the file of that name, and decodes the file.
func golden[T any](t *testing.T, name string, message func() (any, error), read func(T)) {
	t.Helper()
	path := filepath.Join("testdata", "wire", name+".json")
	m, err := message()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, '\n')
	if *updateWire {
		if err = os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, file) {
		t.Errorf("%s has changed to:\n%s", path, b)
	}
	var v T
	if err = json.Unmarshal(file, &v); err != nil {
		t.Fatal(err)
	}
	read(v)
}
