package ack

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"shardway/shardmap"
)

// servicesLog applies entries to a state, in term 1.
type servicesLog struct {
	t     *testing.T
	state *State
}

// newServicesLog returns the log of a new cluster.
func newServicesLog(t *testing.T, shards int, services ...ServiceSpec) *servicesLog {
	t.Helper()
	log := &servicesLog{t: t, state: NewState()}
	log.apply(EncodeBootstrap("c", shards, DefaultTiming(), services...), OutcomeBootstrapped)
	return log
}

// apply applies an entry, and checks that the state survives a snapshot.
func (log *servicesLog) apply(entry []byte, want Outcome) {
	log.t.Helper()
	next, outcome, err := log.state.Apply(log.state.Index()+1, 1, entry)
	if err != nil || outcome != want {
		log.t.Fatalf("outcome %d, %v, want %d", outcome, err, want)
	}
	log.state = next
	checkSnapshot(log.t, next)
}

// change applies changes of the services, and reports whether CheckChanges accepts each of them.
func (log *servicesLog) change(changes ...Change) error {
	log.t.Helper()
	err := log.state.CheckChanges(changes)
	log.apply(EncodePolicyChange(log.state.FormatVersion(), PolicyEntry{Term: 1, Changes: changes}), OutcomePolicyChanged)
	return err
}

// move proposes a map in which each of the given nodes runs all services, and commits it.
func (log *servicesLog) move(ids ...shardmap.NodeID) {
	log.t.Helper()
	log.propose(ids...)
	proposed := log.state.Proposed()
	log.apply(EncodeCommit(log.state.FormatVersion(), CommitEntry{Epoch: proposed.Epoch(), Digest: proposed.Digest()}), OutcomeCommitted)
}

// propose proposes a map in which each of the given nodes runs all services.
func (log *servicesLog) propose(ids ...shardmap.NodeID) {
	log.t.Helper()
	var members []shardmap.Member
	running := map[shardmap.NodeID]shardmap.InstanceSet{}
	for _, id := range ids {
		members, running[id] = append(members, shardmap.Member{ID: id, Weight: 1}), 0
	}
	var services []shardmap.Service
	for _, service := range log.state.Services() {
		services = append(services, shardmap.Service{First: service.First, Count: service.Shards, Instances: running})
	}
	want := shardmap.Assign(log.state.Committed(), members, shardmap.Policy{Services: services})
	log.proposeMap(want, OutcomeProposed)
}

// proposeMap proposes a map.
func (log *servicesLog) proposeMap(want *shardmap.Map, outcome Outcome) {
	log.t.Helper()
	entry, err := EncodeProposal(log.state.FormatVersion(), ProposalEntry{Term: 1, Base: log.state.Committed().Epoch(), Want: want})
	if err != nil {
		log.t.Fatal(err)
	}
	log.apply(entry, outcome)
}

// ranges returns the services as text.
func (log *servicesLog) ranges() string {
	var texts []string
	for _, service := range log.state.Services() {
		texts = append(texts, fmt.Sprintf("%s#%d %d-%d", service.Name, service.ID, service.First, service.End()-1))
	}
	return strings.Join(texts, ", ")
}

// wantRanges fails the test unless the cluster has the services.
func (log *servicesLog) wantRanges(want string) {
	log.t.Helper()
	if got := log.ranges(); got != want {
		log.t.Errorf("services %s, want %s", got, want)
	}
}

func add(name string, shards int) Change {
	return Change{Kind: ChangeAddService, Service: name, Shards: shards}
}

func remove(name string) Change { return Change{Kind: ChangeRemoveService, Service: name} }

func TestClusterWithoutServicesHasTheDefaultService(t *testing.T) {
	log := newServicesLog(t, 8)
	log.wantRanges("default#0 0-7")
	if log.state.HasServices() || len(NewState().Services()) > 0 {
		t.Error("a cluster without services has a list of them")
	}
	if service, found := log.state.ServiceOf(7); !found || service.Name != DefaultService {
		t.Errorf("shard 7 belongs to %+v, found: %v", service, found)
	}
	if _, found := log.state.ServiceOf(8); found {
		t.Error("a shard beyond the map belongs to a service")
	}
}

func TestBootstrapCreatesTheConfiguredServices(t *testing.T) {
	log := newServicesLog(t, 12, ServiceSpec{"search", 4}, ServiceSpec{"chat", 8})
	log.wantRanges("search#1 0-3, chat#2 4-11")
	for _, invalid := range [][]ServiceSpec{
		{{"chat", 4}, {"chat", 8}}, {{"chat", 11}}, {{"chat", 12}, {"search", 0}}, {{"Chat", 12}}, {{"", 12}},
	} {
		if _, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 12, DefaultTiming(), invalid...)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("bootstrap with %v: %v", invalid, err)
		}
	}
}

// A range never changes, and a removed range is reused.
func TestServicesGetTheLowestFreeRange(t *testing.T) {
	log := newServicesLog(t, 8)
	for _, change := range []Change{add("chat", 4), add("search", 2), add("chat", 4), add("mail", 3)} {
		if err := log.change(change); err != nil {
			t.Errorf("%+v: %v", change, err)
		}
	}
	log.wantRanges("default#0 0-7, chat#1 8-11, search#2 12-13, mail#3 14-16")
	if err := log.change(remove("chat"), add("game", 5), add("jobs", 3), add("cron", 1)); err != nil {
		t.Error(err)
	}
	log.wantRanges("default#0 0-7, jobs#5 8-10, cron#6 11-11, search#2 12-13, mail#3 14-16, game#4 17-21")
	if err := log.change(remove("default")); err != nil {
		t.Error(err)
	}
	log.wantRanges("jobs#5 8-10, cron#6 11-11, search#2 12-13, mail#3 14-16, game#4 17-21")
	if log.state.Committed().Len() != 8 {
		t.Errorf("the committed map has %d shards before the next map", log.state.Committed().Len())
	}
}

func TestInvalidServiceChangesHaveNoEffect(t *testing.T) {
	log := newServicesLog(t, 8)
	if err := log.change(add("chat", 4)); err != nil {
		t.Fatal(err)
	}
	log.move("a")
	for _, test := range []struct {
		change Change
		reason error
		text   string
	}{
		{add("chat", 5), ErrServiceShards, "service chat has 4 shards: the number of shards of a service cannot change"},
		{add("huge", MaxShards), ErrNoServiceRange, "service huge: the services of a cluster have at most 65536 shards in all"},
		{remove("mail"), ErrNoService, "service mail: no such service"},
		{remove("chat"), ErrServiceInUse, "service chat: nodes own shards of the service"},
	} {
		err := log.change(test.change)
		if !errors.Is(err, test.reason) || !errors.Is(err, ErrChange) || err.Error() != test.text {
			t.Errorf("%+v: %v, want %s", test.change, err, test.text)
		}
		log.wantRanges("default#0 0-7, chat#1 8-11")
	}
	for i := range MaxServices - 2 {
		if err := log.change(add(fmt.Sprintf("s%d", i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.change(add("last", 1)); !errors.Is(err, ErrTooManyServices) || len(log.state.Services()) != MaxServices {
		t.Errorf("%d services: %v", len(log.state.Services()), err)
	}
}

func TestServiceInUseByOneMapIsKept(t *testing.T) {
	log := newServicesLog(t, 4)
	_ = log.change(add("chat", 2))
	log.propose("a") // only the proposed map has an owner
	if err := log.change(remove("chat")); !errors.Is(err, ErrServiceInUse) {
		t.Errorf("removal with an owner in the proposed map: %v", err)
	}
	log.move("a")
	log.propose() // only the committed map has an owner
	if err := log.change(remove("chat")); !errors.Is(err, ErrServiceInUse) {
		t.Errorf("removal with an owner in the committed map: %v", err)
	}
	log.wantRanges("default#0 0-3, chat#1 4-5")
	log.move()
	if err := log.change(remove("chat")); err != nil {
		t.Errorf("removal without an owner: %v", err)
	}
	if err := log.change(remove("default")); !errors.Is(err, ErrLastService) {
		t.Errorf("removal of the last service: %v", err)
	}
	log.wantRanges("default#0 0-3")
}

func TestMapGetsLongerWithItsServices(t *testing.T) {
	log := newServicesLog(t, 4)
	log.move("a", "b")
	epoch := log.state.Committed().Epoch()
	_ = log.change(add("chat", 3))
	log.propose("a", "b")
	if committed, proposed := log.state.Committed().Len(), log.state.Proposed().Len(); committed != 4 || proposed != 7 {
		t.Errorf("maps of %d and %d shards, want 4 and 7", committed, proposed)
	}
	log.move("a", "b")
	committed := log.state.Committed()
	for shard := range shardmap.Shard(7) {
		if moved := committed.OwnedSince(shard) > epoch; committed.Owner(shard) == "" || moved != (shard >= 4) {
			t.Errorf("shard %d belongs to %q since %d", shard, committed.Owner(shard), committed.OwnedSince(shard))
		}
	}
	if log.state.Shards() != 7 {
		t.Errorf("the state has %d shards", log.state.Shards())
	}
	shorter, longer := shardmap.New(6), shardmap.New(8)
	log.proposeMap(shorter, OutcomeIgnored)
	log.proposeMap(longer, OutcomeIgnored)
	log.proposeMap(shardmap.New(7), OutcomeProposed)
}

// A map without an owner of the new shards has no moves, but more shards.
func TestPreviousOwnersAreKeptInALongerMap(t *testing.T) {
	log := newServicesLog(t, 4)
	log.move("a")
	log.move("b")
	_ = log.change(add("chat", 3))
	want := log.state.Committed()
	log.proposeMap(shardmap.Assign(want, want.Members(), shardmap.Policy{Services: []shardmap.Service{
		{First: 0, Count: 4, Instances: map[shardmap.NodeID]shardmap.InstanceSet{"b": 0}}, {First: 4, Count: 3},
	}}), OutcomeProposed)
	proposed := log.state.Proposed()
	log.apply(EncodeCommit(log.state.FormatVersion(), CommitEntry{Epoch: proposed.Epoch(), Digest: proposed.Digest()}), OutcomeCommitted)
	if got := log.state.PreviousOwners(); !slices.Equal(got, []shardmap.NodeID{"a", "a", "a", "a", "", "", ""}) {
		t.Errorf("previous owners %q", got)
	}
	if got := log.state.PreviousOwner(7); got != "" {
		t.Errorf("previous owner of a shard beyond the map: %q", got)
	}
}

// Another service may get the range of a removed one. It must not inherit anything from it except the
// departures: an app process may still hold old copies.
func TestRemovedServiceLeavesOnlyDepartures(t *testing.T) {
	log := newServicesLog(t, 2)
	_ = log.change(add("chat", 2))
	reports := []AppReport{{Node: "a", ReturnsNeedRestart: true}}
	log.apply(EncodeAppReports(log.state.FormatVersion(), AppReportEntry{Term: 1, Reports: reports}), OutcomeAppsReported)
	log.move("a")
	log.move("b")
	log.move()
	inChat, inDefault := KeyFingerprint{Shard: 2}, KeyFingerprint{Shard: 1}
	_ = log.change(
		Change{Kind: ChangePin, Shard: 1, Node: "a", Fallbacks: []shardmap.NodeID{"b"}, Reason: "test"},
		Change{Kind: ChangePin, Shard: 3, Node: "a", Fallbacks: []shardmap.NodeID{"b"}, Reason: "test"},
		Change{Kind: ChangeQuarantine, KeyFingerprint: inChat, Reason: "test"}, Change{Kind: ChangeQuarantine, KeyFingerprint: inDefault},
	)
	if !log.state.IsBarred("a", 2) || log.state.PreviousOwner(2) == "" {
		t.Fatal("the state has no records of the service")
	}
	before := mustEncode(t, log.state)
	state := log.state
	if err := log.change(remove("chat")); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mustEncode(t, state), before) {
		t.Error("the removal changed the state before it")
	}
	policy := log.state.Policy()
	if len(policy.Pins) != 1 || len(policy.PinFallbacks) != 1 || policy.Pins[1].Node != "a" || len(policy.Reasons) != 1 {
		t.Errorf("policy %+v, want the pin of shard 1 only", *policy)
	}
	if _, kept := policy.Quarantined[inDefault]; !kept || len(policy.Quarantined) != 1 {
		t.Errorf("quarantines %v, want that of shard 1 only", policy.Quarantined)
	}
	for shard := range shardmap.Shard(4) {
		if barred, hasOwner := log.state.IsBarred("a", shard), log.state.PreviousOwner(shard) != ""; !barred || hasOwner != (shard < 2) {
			t.Errorf("shard %d after the removal: barred %v, has a previous owner %v, want %v", shard, barred, hasOwner, shard < 2)
		}
	}
}

func TestServicesOutliveTheCluster(t *testing.T) {
	log := newServicesLog(t, 4)
	_ = log.change(add("chat", 3))
	log.move("a")
	recovered, err := log.state.Recovered("c2", log.state.MaxIndex()+MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	checkSnapshot(t, recovered)
	if recovered.Shards() != 7 || !slices.Equal(recovered.Services(), log.state.Services()) {
		t.Errorf("recovered: %d shards of %v", recovered.Shards(), recovered.Services())
	}
	backup, err := log.state.Backup()
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := OpenBackup(backup); err != nil || !slices.Equal(opened.Services(), log.state.Services()) {
		t.Errorf("backup: %v", err)
	}
}

// A program without services considers these encodings corrupt.
func TestServicesNeedTheirFormatVersion(t *testing.T) {
	log := &servicesLog{t: t, state: beforeInstances(t)}
	if err := log.state.CheckChanges([]Change{add("chat", 4)}); !errors.Is(err, ErrChange) {
		t.Errorf("a service is accepted: %v", err)
	}
	entry := EncodePolicyChange(ServicesFormatVersion, PolicyEntry{Term: 1, Changes: []Change{add("chat", 4)}})
	if _, _, err := log.state.Apply(2, 1, entry); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an entry of the next format version is applied: %v", err)
	}
	entry = EncodePolicyChange(MinFormatVersion, PolicyEntry{Term: 1, Changes: []Change{add("chat", 4)}})
	if _, _, err := log.state.Apply(2, 1, entry); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), ErrServicesFormat.Error()) {
		t.Errorf("an entry with a service is applied: %v", err)
	}
	bootstrap := EncodeBootstrap("c", 4, DefaultTiming(), ServiceSpec{"chat", 4})
	bootstrap[0] = byte(MinFormatVersion)
	if _, _, err := NewState().Apply(1, 1, bootstrap); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a bootstrap entry with services is applied: %v", err)
	}
	log.apply(EncodeFormatVersion(MinFormatVersion, FormatVersionEntry{Term: 1, Version: MaxFormatVersion}), OutcomeFormatVersionRaised)
	if err := log.change(add("chat", 4)); err != nil {
		t.Errorf("refused after the raise: %v", err)
	}
}

func TestStateWithoutServicesIsEncodedAsBefore(t *testing.T) {
	state := newServicesLog(t, 8).state
	encoded := mustEncode(t, state)
	state.services.lastID = 7 // not written without services
	if !bytes.Equal(mustEncode(t, state), encoded) {
		t.Error("a state without services contains data about them")
	}
}

func TestInvalidServiceListIsCorrupt(t *testing.T) {
	log := newServicesLog(t, 8)
	encoded := mustEncode(t, log.state)
	for name, list := range map[string]serviceList{
		"no services":      {lastID: 1, services: []Service{}},
		"overlap":          {lastID: 2, services: []Service{{ID: 1, Name: "a", Shards: 4}, {ID: 2, Name: "b", First: 3, Shards: 1}}},
		"out of order":     {lastID: 2, services: []Service{{ID: 1, Name: "a", First: 4, Shards: 4}, {ID: 2, Name: "b", Shards: 4}}},
		"same name":        {lastID: 2, services: []Service{{ID: 1, Name: "a", Shards: 4}, {ID: 2, Name: "a", First: 4, Shards: 1}}},
		"same id":          {lastID: 2, services: []Service{{ID: 1, Name: "a", Shards: 4}, {ID: 1, Name: "b", First: 4, Shards: 1}}},
		"id of later":      {lastID: 1, services: []Service{{ID: 2, Name: "a", Shards: 4}}},
		"bad name":         {lastID: 1, services: []Service{{ID: 1, Name: "a_b", Shards: 4}}},
		"no shards":        {lastID: 1, services: []Service{{ID: 1, Name: "a"}}},
		"beyond the limit": {lastID: 1, services: []Service{{ID: 1, Name: "a", First: 1, Shards: MaxShards}}},
	} {
		w := writer{buf: bytes.Clone(encoded)}
		if w.writeServices(list); name == "no services" {
			w.uint(1)
			w.uint(0)
		}
		if _, err := DecodeState(w.buf); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServiceNames(t *testing.T) {
	for _, name := range []string{"a", "0", "chat", "chat-2", "a--b", strings.Repeat("x", MaxServiceName)} {
		if !ValidServiceName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", "-", "-a", "a-", "Chat", "a_b", "a.b", "a/b", "a b", "ä", "a\x00", "a\n", strings.Repeat("x", MaxServiceName+1)} {
		if ValidServiceName(name) {
			t.Errorf("%q is accepted", name)
		}
	}
}

// FuzzServiceChanges applies random changes of the services. The ranges must not overlap, a range must not
// change while its service exists, and no ID may be used twice.
func FuzzServiceChanges(f *testing.F) {
	f.Add([]byte{1, 4, 2, 2, 1, 0, 3, 9})
	f.Add([]byte{1, 255, 2, 255, 1, 0, 3, 255, 2, 0, 4, 128})
	f.Fuzz(func(t *testing.T, script []byte) {
		log := newServicesLog(t, 8)
		used := map[uint64]Service{}
		for ; len(script) >= 2; script = script[2:] {
			name, length := fmt.Sprintf("s%d", script[0]%80), int(script[1])*int(script[1])
			before := log.ranges()
			change := add(name, length)
			if length == 0 {
				change = remove(name)
			}
			err := log.change(change)
			if err != nil && log.ranges() != before {
				t.Fatalf("%v, but the services change: %s, then %s", err, before, log.ranges())
			}
			_, exists := log.state.Service(name)
			if err == nil && exists != (length > 0) {
				t.Fatalf("no error, but the service %s exists: %v", name, exists)
			}
			end := 0
			for _, service := range log.state.Services() {
				if int(service.First) < end || service.End() > MaxShards {
					t.Fatalf("overlapping services: %s", log.ranges())
				}
				end = service.End()
				if known, isKnown := used[service.ID]; isKnown && known != service {
					t.Fatalf("ID %d is used for %+v and %+v", service.ID, known, service)
				}
				used[service.ID] = service
			}
		}
	})
}

// The shards of a removed service and of a service that no node has run count nowhere. Those of a service that has lost
// its nodes count as orphaned.
func TestCountsOmitRemovedAndUnstartedServices(t *testing.T) {
	log := newServicesLog(t, 12, ServiceSpec{"chat", 8}, ServiceSpec{"search", 4})
	want := func(step string, services, started, orphans int) {
		t.Helper()
		if s := log.state; s.ServiceShards() != services || s.StartedShards() != started || s.OrphanCount() != orphans {
			t.Errorf("%s: %d shards, %d started, %d orphaned, want %d, %d, %d", step, s.ServiceShards(), s.StartedShards(), s.OrphanCount(), services, started, orphans)
		}
	}
	want("before the first map", 12, 12, 12)
	log.move("a", "b")
	want("all run", 12, 12, 0)
	if err := log.change(add("mail", 3)); err != nil {
		t.Fatal(err)
	}
	want("mail is added", 15, 12, 0)
	mail, _ := log.state.Service("mail")
	search, _ := log.state.Service("search")
	runAll := map[shardmap.NodeID]shardmap.InstanceSet{"a": 0}
	moveTo := func(services ...Service) {
		t.Helper()
		var placed []shardmap.Service
		for _, service := range log.state.Services() {
			running := map[shardmap.NodeID]shardmap.InstanceSet{}
			if slices.Contains(services, service) {
				running = runAll
			}
			placed = append(placed, shardmap.Service{First: service.First, Count: service.Shards, Instances: running})
		}
		log.proposeMap(shardmap.Assign(log.state.Committed(), []shardmap.Member{{ID: "a", Weight: 1}}, shardmap.Policy{Services: placed}), OutcomeProposed)
		log.apply(EncodeCommit(log.state.FormatVersion(), CommitEntry{Epoch: log.state.Proposed().Epoch(), Digest: log.state.Proposed().Digest()}), OutcomeCommitted)
	}
	moveTo(log.state.Services()[0], search)
	want("mail is in the map", 15, 12, 0)
	if unstarted := log.state.UnstartedServices(); !slices.Equal(unstarted, []Service{mail}) || log.state.OrphansOf(mail) != 0 {
		t.Errorf("unstarted: %v", unstarted)
	}
	moveTo(log.state.Services()[0])
	want("search has lost its nodes", 15, 12, 4)
	if log.state.OrphansOf(search) != 4 {
		t.Errorf("%d shards of search are orphaned", log.state.OrphansOf(search))
	}
	if err := log.change(remove("search")); err != nil {
		t.Fatal(err)
	}
	want("search is removed", 11, 8, 0)
	if err := log.change(add("game", 4)); err != nil {
		t.Fatal(err)
	}
	if game, _ := log.state.Service("game"); game.First != search.First || log.state.HasStarted(game) {
		t.Errorf("%+v has started in the range of another service: %v", game, log.state.HasStarted(game))
	}
	want("game has the range of search", 15, 8, 0)
}

func TestShardsAreNumberedWithinTheirServices(t *testing.T) {
	shards := []shardmap.Shard{1, 3, 9}
	if got := newServicesLog(t, 12).state.FormatShards(shards); got != shardmap.FormatShards(shards) {
		t.Errorf("without services: %s", got)
	}
	state := newServicesLog(t, 12, ServiceSpec{"chat", 8}, ServiceSpec{"search", 4}).state
	if got, want := state.FormatShards(shards), "2 shards: 1, 3 of service chat, shard 1 of service search"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if service, number := state.NumberInService(9); service != "search" || number != 1 {
		t.Errorf("shard 9 is %d of %s", number, service)
	}
}
