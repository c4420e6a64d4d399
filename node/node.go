package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/admin"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/event"
	"shardway/internal/chanutil"
	"shardway/internal/clock"
	"shardway/node/adminapi"
	"shardway/node/apphealth"
	"shardway/node/campaign"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/disk"
	"shardway/node/eventlog"
	"shardway/node/findings"
	"shardway/node/gossip"
	"shardway/node/heartbeat"
	"shardway/node/identity"
	"shardway/node/idleshards"
	"shardway/node/keyhash"
	"shardway/node/leaderloop"
	"shardway/node/membership"
	"shardway/node/rotation"
	"shardway/node/router"
	"shardway/node/shutdown"
	"shardway/node/writelimit"
	"shardway/peer"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/queue"
	"shardway/shardmap"
)

// Node is one Shardway process. See the package documentation for its parts.
type Node struct {
	o        Options
	self     shardmap.NodeID
	serverID string // Raft server ID, see serverID
	log      zerolog.Logger
	nonce    uint64 // random number that distinguishes processes with the same boot number; not secret

	port           *peer.Port         // connections between nodes
	client         *control.Client    // requests to other nodes
	gossip         *gossip.Gossip     // finds the other nodes
	announcer      *announcer         // announces this node by gossip
	stores         *disk.Stores       // the stores of Raft
	stream         *consensus.Stream  // the connections of Raft
	raft           *consensus.Raft    // set by openRaft
	raftOpen       chan struct{}      // closed after raft was set
	fsm            *fsm               // the replicated state
	api            *adminapi.API      // the services of the admin port
	hasher         *keyhash.Hasher    // hashes shard keys, and recognizes quarantined keys
	leaderClient   *leaderloop.Client // requests to the leader
	view           *cluster.View      // what this node knows of the other nodes
	router         *router.Router     // the routing table and the lease
	queue          *queue.Queue       // requests that wait, for example while their shard moves
	proxy          *proxy.Server
	scheduler      clock.Scheduler             // shared source of periodic wake-ups
	agent          *agent                      // this node's side of the lease protocol
	heartbeats     *heartbeat.Client           // sends the heartbeats of the agent to the leader
	crashDetector  *crashdetect.Detector       // detects that processes of other nodes have ended
	poisonDetector *crashdetect.PoisonDetector // detects keys whose requests may end processes
	diskRecords    *identity.Records           // what the other nodes have stated about their disks
	greeter        *identity.Greeter           // exchanges these statements with the other voters
	addressChanges *identity.AddressChanges
	bootstrapper   *membership.Bootstrapper      // set by openRaft
	duplicates     *membership.DuplicateDetector // set by openRaft
	campaigner     *campaign.Campaigner          // starts elections; set by openRaft
	suspicion      *campaign.Suspicion           // whether this node suspects its leader; set by openRaft
	health         *apphealth.Checker            // nil for a gateway
	appWatch       *appWatch
	writeLimit     *writelimit.Limit // how long the app may write without contact to this node
	metrics        *metrics
	events         *event.Ring
	changes        *eventlog.MapChangeRecorder
	leaderTracker  *eventlog.LeaderTracker
	leadership     atomic.Pointer[leaderloop.Leadership] // nil means that this node does not lead
	background     sync.WaitGroup                        // goroutines that wait for Raft or other nodes; all end when Raft stops
	rotation       *rotation.Rotation                    // rotation of the cluster secret
	leaderInbox    *leaderInbox                          // passes messages to the leader loop
	monitor        *findings.Monitor                     // computes the findings
	idleTracker    *idleshards.Tracker                   // which shards of this node are idle
	diskStalled    atomic.Bool                           // a write to the disk has stalled
	loadedKeys     loadedKeys                            // key configuration of this node's settings

	shutdown      *shutdown.Sequence // the steps of an orderly stop
	started       time.Time
	stopping      atomic.Bool   // the steps of leave or hold are done, or the node has failed
	stopRequested atomic.Bool   // the node was asked to stop
	failed        chan error    // cap 1: the first failure that must stop the node
	ready         chan struct{} // closed when the node serves requests
}

// New builds a node. It opens only the stores in the data directory.
func New(o Options) (*Node, error) {
	n := &Node{
		o: o, self: shardmap.NodeID(o.Dir.Node()), serverID: consensus.ServerID(o.Dir.Node(), o.Dir.Disk()), log: o.Log,
		failed:   make(chan error, 1),
		nonce:    rand.Uint64(), //nolint:gosec // no secret
		raftOpen: make(chan struct{}),
		ready:    make(chan struct{}),
		metrics:  newMetrics(),
	}
	if n.o.ShutdownTimeout <= 0 {
		n.o.ShutdownTimeout = 30 * time.Second
	}
	if id, shards := o.Dir.Cluster(); id != "" && shards != o.Shards {
		return nil, fmt.Errorf("node: the cluster of this data directory has %d shards, --shards says %d: the number is fixed at birth; start with --shards %d", shards, o.Shards, shards)
	}
	if kept := ack.FormatVersion(o.Dir.Level()); kept != 0 && kept.CheckSupported() != nil {
		return nil, unknownLevel(fmt.Errorf("data directory %q has %w", o.Dir.Path(), kept.CheckSupported()))
	}
	n.loadedKeys.set(o.Keys)
	n.fsm = newFSM(n.fail)
	n.announcer = &announcer{o: &n.o, state: n.fsm.state.Load, fail: n.fail}
	var err error
	if n.hasher, err = keyhash.New(keyhash.Options{
		Secrets: o.Secrets, Cluster: n.announcer.clusterID, Shards: o.Shards,
		Policy: func() *ack.Policy { return n.fsm.state.Load().Policy() },
		Apply:  func(q *shardkey.Quarantine) { n.proxy.Quarantine(q) },
	}); err != nil {
		return nil, err
	}
	n.announcer.hasher = n.hasher
	n.view = cluster.NewView(string(n.self), n.serverID, o.Timing, n.fsm.state.Load)
	n.diskRecords = identity.NewRecords(n.recordsOptions())
	n.port = peer.New(peer.Options{
		Node: string(n.self), Disk: o.Dir.Disk(), Boot: o.Dir.Boot(),
		Cluster: n.announcer.clusterID, AdoptCluster: n.announcer.adopt, IsKnownNode: n.view.IsKnownPeer, Lookup: n.view.Lookup, IsNodeAddr: n.view.IsNodeAddress, Dial: o.PeerDial, Log: o.Log,
		DiskRecords: n.diskRecords,
		Scheduler:   &n.scheduler,
		WrapClient:  o.WrapClient, WrapServer: o.WrapServer,
	})
	n.client = control.NewClient(n.port, n.log)
	n.leaderClient = &leaderloop.Client{Self: string(n.self), View: n.view, Control: n.client, CurrentLeadership: n.leadership.Load, NoLeaderReason: func() string { return n.api.WhyNoLeader() }, Log: n.log}
	n.poisonDetector = crashdetect.NewPoisonDetector(crashdetect.PoisonOptions{
		Self: string(n.self), Port: n.port, Client: n.client, Leader: n.view.Leader, StoppedOnPurpose: n.view.IsLeavingOrLeft, Log: n.log,
	})
	n.stream = consensus.NewStream(n.serverID, n.diskRecords.DialRaft(n.port, n.raftOpen))
	n.router = router.New(n.self, o.Shards, o.Clock, n.port)
	n.queue = queue.New(o.Queue)
	n.appWatch = newAppWatch(&n.o, n.fsm.state.Load)
	n.writeLimit = writelimit.New(n.writeLimitOptions())
	if o.CheckApp != nil {
		n.health = apphealth.NewChecker(n.appWatch.wrapCheck(o.CheckApp, o.AppInstance), cmp.Or(o.Health, apphealth.DefaultSettings()), &n.scheduler, o.Log, func() {
			n.events.Add(eventlog.AppHealth(n.self, n.health.Healthy()))
			if !n.health.Healthy() {
				n.idleTracker.Holds.Clear() // an unhealthy app has lost the held state, or its shards move away soon
			}
			chanutil.Notify(n.agent.heartbeatNow)
		})
	}
	n.events = n.newEvents()
	n.leaderTracker = eventlog.NewLeaderTracker(n.events)
	n.changes = eventlog.NewMapChangeRecorder(eventlog.MapChangeOptions{Self: n.self, Ring: n.events, Queue: n.queue.Stats, OnPhase: func(phase string, d time.Duration) {
		n.metrics.mapPhases.WithLabelValues(phase).Observe(d.Seconds())
	}})
	n.idleTracker = &idleshards.Tracker{Self: n.self, Clock: o.Clock, Router: n.router, Holds: idleshards.NewHolds(o.Shards), Stages: new(idleshards.Stages)}
	n.proxy = proxy.New(n.proxyOptions())
	n.idleTracker.Proxy = n.proxy
	if n.appWatch != nil {
		n.appWatch.hasConns, n.appWatch.renewConns = n.proxy.UpstreamConnected, n.proxy.RenewUpstream
	}
	n.fsm.onPolicyChange = n.hasher.UpdateQuarantine
	n.crashDetector = crashdetect.NewDetector(n.port, o.Clock, n.onDialRefused)
	n.leaderInbox = &leaderInbox{leading: &n.leadership, records: n.diskRecords, crashes: n.crashDetector, ownAnswers: make(chan ack.Answer, 1), log: n.log}
	n.rotation = rotation.New(rotation.Options{Self: string(n.self), Secrets: o.Secrets, Cluster: rotating{n}, Log: o.Log})
	if err := n.open(); err != nil {
		return nil, err
	}
	n.greeter = &identity.Greeter{Records: n.diskRecords, Port: n.port, View: n.view, Scheduler: &n.scheduler, Background: &n.background}
	n.addressChanges = &identity.AddressChanges{
		Gossip: n.gossip, View: n.view, Port: n.port, Records: n.diskRecords, RequestIdentity: peerClient{n}.RequestIdentity, Log: n.log,
	}
	n.newAgent()
	n.shutdown = shutdown.New(n.shutdownOptions())
	n.api = adminapi.New(n.adminOptions())
	n.monitor = findings.New(n.monitorOptions())
	n.followSecrets()
	return n, nil
}

// proxyOptions returns Options.Proxy with the fields that connect the proxy to this node.
func (n *Node) proxyOptions() proxy.Options {
	p := n.o.Proxy
	if n.health != nil && p.DialUpstream != nil {
		p.DialUpstream = n.health.WatchDial(n.appWatch.wrapDial(p.DialUpstream))
	}
	p.Node, p.Cluster, p.Queue, p.QueueWait, p.Log = string(n.self), n.router, n.queue, n.o.Queue.Wait, n.o.Log
	if n.o.Hooks != nil && !n.o.Gateway {
		p.AcquireError = func(s shardmap.Shard) string { return n.agent.acquireFailures.reasonOf(s) }
		p.NotAcquired = func(s shardmap.Shard, epoch uint64) { n.router.OnNotAcquired(s, shardmap.Epoch(epoch)) }
	}
	p.KeepUpstream = n.appWatch != nil
	p.LeaseExpired, p.AcceptsNewKeys, p.HoldShard = n.router.IsAbortOverdue, n.acceptsNewKeys, n.idleTracker.Hold
	p.Probe = func() (bool, string) {
		if err := n.api.Ready(); err != nil {
			return false, api.Brief(err) // without details, because the probe needs no authentication
		}
		return true, ""
	}
	p.OnHandover = func(h wsession.Handover) { n.events.Add(eventlog.WebSocketsMoved(h)) }
	p.HashKey, p.PeerCrashed, p.Shards, p.Explain = n.hasher.Key, n.poisonDetector.ConnsBroken, n.o.Shards, func(why route.Reason) proxy.Explanation { return n.monitor.Explain(why) }
	return p
}

// recordsOptions returns the options of the records of the disks of all nodes.
func (n *Node) recordsOptions() identity.RecordsOptions {
	return identity.RecordsOptions{
		Server: n.serverID, Nonce: n.nonce, Dir: n.o.Dir, View: n.view, Log: n.log,
		Raft: func() *consensus.Raft {
			select {
			case <-n.raftOpen:
				return n.raft
			default:
				return nil
			}
		},
		AppliedEpoch:      func() shardmap.Epoch { return n.fsm.state.Load().Committed().Epoch() },
		CloseOtherStreams: func(server string, nonce uint64) { n.stream.CloseOtherProcesses(server, nonce) },
		SetPeerProcess:    func(node string, boot, nonce uint64) { n.proxy.SetPeerProcess(node, boot, nonce) },
		ProbeDuplicate: func(ctx context.Context, node string, nonce uint64) string {
			return n.duplicates.Probe(ctx, node, nonce)
		},
		Fail: n.fail,
	}
}

// writeLimitOptions returns the options of the limit for writes of the app.
func (n *Node) writeLimitOptions() writelimit.Options {
	w := writelimit.Options{Self: n.self, Router: n.router, Timing: n.view.Timing, InitialTiming: n.o.Timing, Clock: n.o.Clock, Log: n.log}
	if !n.o.Gateway {
		w.Hook, _ = n.o.Hooks.(writelimit.Hook)
		if n.o.Proxy.Handler == nil {
			w.Dir = n.o.Dir
		}
	}
	return w
}

// open creates gossip and opens the stores of Raft.
func (n *Node) open() error {
	var err error
	if n.gossip, err = gossip.New(gossip.Options{
		BindAddr: n.o.GossipBind, AdvertiseAddr: n.o.GossipAdvertise, JoinAddrs: n.o.Join, BootstrapExpect: n.o.BootstrapExpect, Tags: n.announcer.tags(), Keys: gossipKeys(n.o.Secrets),
		RetainForever: n.view.IsServer, SnapshotPath: n.o.Dir.GossipSnapshot(), Transport: n.o.GossipTransport, Scheduler: &n.scheduler, Log: n.o.Log,
	}); err != nil {
		return err
	}
	n.view.Gossip, n.announcer.gossip = n.gossip, n.gossip
	if n.stores, err = n.o.Dir.OpenStores(disk.StoreOptions{Log: n.o.Log}); err != nil {
		return err
	}
	n.stores.SetWriteObserver(func(d time.Duration) { n.metrics.diskWrites.Observe(d.Seconds()) })
	return nil
}

// adminOptions returns the options of the admin API.
func (n *Node) adminOptions() adminapi.Options {
	return adminapi.Options{
		Self: n.self, Dir: n.o.Dir, Version: n.o.Version, Shards: n.o.Shards, Gateway: n.o.Gateway, Timing: n.o.Timing, Settings: n.o.Settings, PeerDial: n.o.PeerDial,
		Clock: n.o.Clock, Log: n.log, View: n.view, Leader: n.leaderClient, Client: n.client, Router: n.router, Proxy: n.proxy, Queue: n.queue, Health: n.health, Agent: n.agent,
		Findings: func() adminapi.Findings {
			r := n.monitor.Result()
			return adminapi.Findings{Inputs: r.Inputs, List: r.Findings}
		},
		HeldShardCount: n.idleTracker.HeldCount, LoadedKeys: n.loadedKeys.digest.Load, Quarantined: n.hasher.Quarantined, HashKeyID: n.hasher.KeyID,
		WriteTimeLeft: n.writeLimit.ForOwned, NoTakeoverReason: n.shutdown.WhyShardsStay, Started: func() time.Time { return n.started }, IsStopRequested: n.stopRequested.Load, IsStopping: n.stopping.Load,
	}
}

// shutdownOptions returns the options of the steps of an orderly stop.
func (n *Node) shutdownOptions() shutdown.Options {
	s := shutdown.Options{
		Self: n.self, Server: n.serverID, Timeout: n.o.ShutdownTimeout, LameDuck: n.o.LameDuck, Grace: n.o.HoldGrace, DrainTimeout: n.o.Pace.DrainTimeout,
		Clock: n.o.Clock, Log: n.log, Agent: n.agent, View: n.view, Gossip: n.gossip, Router: n.router, Proxy: n.proxy, Client: n.client,
		State: n.fsm.state.Load, Leadership: n.leadership.Load, ShutProxy: n.shutProxy,
	}
	if n.o.Hooks != nil && !n.o.Gateway {
		s.ReleaseTimeout = n.o.ReleaseTimeout
	}
	return s
}

// monitorOptions returns the options of the monitor that computes the findings.
func (n *Node) monitorOptions() findings.Options {
	return findings.Options{
		Self: n.self, Gateway: n.o.Gateway, Shards: n.o.Shards, BootstrapExpect: n.o.BootstrapExpect, Joins: len(n.o.Join) > 0, Exposed: n.o.Exposed,
		Clock: n.o.Clock, Scheduler: &n.scheduler, Log: n.log, Events: n.events,
		View: n.view, Gossip: n.gossip, State: n.fsm.state.Load, Router: n.router, Proxy: n.proxy, Queue: n.queue, Stores: n.stores, Health: n.health, Agent: n.agent, API: n.api,
		Port: n.port, Client: n.client, Leader: n.leaderClient, Poison: n.poisonDetector,
		Bootstrapper:   func() *membership.Bootstrapper { return n.bootstrapper },
		AddressChanges: n.addressChanges.List,
		RequestIdentity: func(ctx context.Context, node string) error {
			_, err := peerClient{n}.RequestIdentity(ctx, node)
			return err
		},
		IsStopping: n.stopping.Load, IsDiskStalled: n.diskStalled.Load,
	}
}

// Findings returns the current findings of this node. The caller must not modify the slice.
func (n *Node) Findings() []diagnosis.Finding { return n.monitor.Result().Findings }

// snapshotEvery is the interval at which Raft checks whether a snapshot is due.
const snapshotEvery = 10 * time.Second

// openRaft restores the state and starts Raft.
func (n *Node) openRaft() error {
	var err error
	n.raft, err = consensus.Open(consensus.Options{
		ID: n.serverID, Stream: n.stream, FSM: n.fsm, Stores: n.stores, OnFailure: n.fail, OnStall: n.onDiskStall, Log: n.o.Log,
		SnapshotInterval: snapshotEvery, OnTerm: n.diskRecords.Table().Term, OnHeartbeat: n.onRaftHeartbeat,
	})
	if broken := n.stores.Err(); broken != nil {
		return broken // this error already contains a remedy
	}
	if err != nil {
		select {
		case unread := <-n.failed: // the error of fsm.Restore is more specific than that of the Raft library
			return unread
		default:
		}
		return fmt.Errorf("node: the data directory cannot be used: "+remedyDamaged+": %w", err)
	}
	n.view.Raft = n.raft
	n.agent.lastIndexAtStart.Store(n.raft.LastIndex())
	n.campaigner = &campaign.Campaigner{
		Raft: n.raft, IsStopping: n.stopping.Load, OnCampaign: func(cause string) { n.metrics.campaigns.WithLabelValues(cause).Inc() }, Log: n.log,
	}
	n.suspicion = campaign.NewSuspicion(campaign.SuspicionOptions{
		Self: n.self, Server: n.serverID, HeartbeatInterval: n.o.Pace.Heartbeat, Clock: n.o.Clock, Campaigner: n.campaigner, Agent: n.agent, Client: n.client, Background: &n.background, Log: n.log,
	})
	n.agent.suspicion = n.suspicion
	n.openMembership()
	close(n.raftOpen)
	return nil
}

// newAgent creates the agent, its machine and the client that sends its heartbeats.
func (n *Node) newAgent() {
	a := &agent{
		self: n.self, clock: n.o.Clock, log: n.log, router: n.router, proxy: n.proxy, metrics: n.metrics, changes: n.changes, fail: n.fail, weight: max(n.o.Weight, 1), restartWithin: n.o.HoldGrace,
		keyConfigDigest: n.loadedKeys.digest.Load, moveStages: n.idleTracker.Stages,
		appHealthy:   func() bool { return n.health == nil || n.health.Healthy() },
		appHealth:    n.appHealth,
		appChecked:   func() bool { return n.health == nil || n.health.Checked() },
		stateChanged: n.fsm.agentHint, newestState: n.fsm.state.Load,
		appWatch: n.appWatch,
		answers:  make(chan ack.Answer), ownAnswers: n.leaderInbox.ownAnswers, heartbeatNow: make(chan struct{}, 1), heartbeatIfNearlyDue: make(chan struct{}, 1), persistentDuplicate: make(chan string, 1), overdue: overdueDetector{report: n.o.Overdue},
		calls: make(chan func()), ended: make(chan struct{}), receivedAt: make(map[shardmap.Shard]time.Duration),
		orphanedForwards: orphanedForwards{log: n.log, abort: n.proxy.CancelForwarded}, timer: n.scheduler.NewOnDemandTicker(), busyTimer: n.scheduler.NewBusyTicker(clock.MinInterval), // created before all other timers, because the lease depends on them
	}
	a.boot.Store(n.o.Dir.Boot())
	if c, ok := n.o.Clock.(clock.CPUTimer); ok {
		a.pauseDetector.cpuTime, n.scheduler.CPUTime = c.CPUTime, c.CPUTime
	}
	_, n.scheduler.UseKernelTimer = n.o.Clock.(clock.KernelClock)
	a.recordEvent = func(e event.Event) { n.events.Add(e) }
	n.agent = a
	n.heartbeats = heartbeat.NewClient(heartbeat.ClientOptions{
		Self: n.self, Port: n.port, Log: n.log, OldConnTimeout: func() time.Duration { return n.view.Timing().DeadAfter },
		Leader: func() string { return n.raft.Leader() }, DeliverOwn: n.leaderInbox.deliverOwnHeartbeat, Answers: a.answers,
		OnConnClosed: func(node string, boot uint64) { n.crashDetector.ConnClosed(node, crashdetect.Process{Boot: boot}) },
		Trigger:      func() { chanutil.Notify(a.heartbeatNow) },
	})
	var hooks *ackagent.HookOptions
	if n.o.Hooks != nil && !n.o.Gateway {
		a.hooks = newHookRunner(n.o.Hooks, n.router.InFlight, n.log)
		a.hooks.onAcquireFailed, a.hooks.isOverdue = n.metrics.acquireFailures.Inc, n.router.IsAbortOverdue
		n.router.OnNotAcquired = a.hooks.recordNotAcquired
		hooks = &ackagent.HookOptions{App: a.hooks, SendReleases: a.hooks.sendReleases, ReleaseEnded: a.onReleaseEnded, ReleaseTimeout: n.o.ReleaseTimeout, AcquireTimeout: n.o.AcquireTimeout}
	}
	a.transmitHeartbeat = n.heartbeats.Send
	a.protocol = ackagent.New(ackagent.Options{
		Node: n.self, Server: n.serverID, Boot: n.o.Dir.Boot(), Nonce: n.nonce, Pace: n.o.Pace, Timing: n.o.Timing,
		Gateway: n.o.Gateway, Zone: n.o.Zone, Hooks: hooks,
		Gate: a, RaftTerm: func() uint64 { return n.raft.Term() }, SendHeartbeat: a.send, RaiseBoot: n.raiseBoot,
		ConfirmsAnswers: func() bool { return !n.raft.IsLeader() && n.isVoter() },
	}, n.o.Clock.Precise())
}

// raiseBoot stores a boot number above known in the data directory and returns it. It returns false if that
// fails.
func (n *Node) raiseBoot(known uint64) (boot uint64, ok bool) {
	boot, err := n.o.Dir.RaiseBoot(known)
	n.port.SetBoot(boot)
	if err != nil {
		n.fail(err)
	}
	return boot, err == nil
}

// Register registers the metrics of this node with r.
func (n *Node) Register(r prometheus.Registerer) error { return n.metrics.register(r, n) }

// Scheduler returns the shared source of periodic wake-ups of this process, so that other components wake up
// together with the node. It runs while Run runs.
func (n *Node) Scheduler() *clock.Scheduler { return &n.scheduler }

// fail makes Run stop the node and return err. Later failures are ignored. It does not block.
func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// onDiskStall records and logs that a disk write has stalled (on), or that the disk responds again. Package
// consensus isolates a leader whose disk has stalled from the other voters. Otherwise it would continue to
// send heartbeats, and would never be replaced.
func (n *Node) onDiskStall(on bool) {
	n.diskStalled.Store(on)
	if !on {
		n.log.Info().Str("path", n.o.Dir.Path()).Msg("disk responds again")
		return
	}
	n.log.Error().Str("path", n.o.Dir.Path()).Str("effect", "the other nodes continue without this node").Msg("disk stalled, check or stop node")
}

// onDialRefused is called when the heartbeat connection to a node broke, and its address then refused a new
// connection. That is evidence that the process gone has ended. If this node leads, refused passes the
// evidence to the leader loop. Otherwise this node campaigns if the process was the leader. began is the
// time at which the redial started. again means that the redial must be repeated.
func (n *Node) onDialRefused(node string, gone crashdetect.Process, began time.Duration) (again bool) {
	if l := n.leadership.Load(); l != nil {
		n.leaderInbox.send(leader.CrashEvidence{Node: shardmap.NodeID(node), Boot: gone.Boot, Nonce: gone.Nonce, RedialStartedAt: began})
		return began < l.StartedAt() // then that said nothing
	}
	n.campaigner.OnLeaderEnded(node)
	return false
}

var errDuplicate = errors.New("duplicate-node")

// wait returns when the node must stop. The result is nil if ctx has ended, otherwise the error of the
// failure.
func (n *Node) wait(ctx context.Context) error {
	refused, asked := n.gossip.Refusals(), make(chan identity.SupersedeCheck, 1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-n.failed:
			return n.recordFatal(err)
		case r := <-refused:
			serves := n.agent.lastAnswer.Load() > 0
			switch {
			case r.Superseded:
				n.background.Go(func() { asked <- identity.CheckSuperseded(ctx, n.port, n.announcer.clusterID(), r, serves, n.log) })
				refused = nil // ignore other refusals until the result is known
			case !serves:
				return r
			default: // a node that serves continues without the node that it cannot join
				n.log.Warn().Err(r).Msg("not joined")
			}
		case s := <-asked:
			switch {
			case s.By != "":
				return errors.Join(s.Claim, n.o.Dir.MarkSuperseded(s.By))
			case !s.Served:
				return s.Claim
			}
			refused = n.gossip.Refusals()
		case addr := <-n.agent.persistentDuplicate:
			return fmt.Errorf("node: %w: node id %q is in use by the process at %s: stop that one, or give this one another --node and an empty --data directory", errDuplicate, n.self, addr)
		}
	}
}

// recordFatal is called with the error that stops the node. If the data directory must not be used any more,
// or not by this program, recordFatal records that in the directory. It returns err and the errors of that
// write.
func (n *Node) recordFatal(err error) error {
	if stale, ok := errors.AsType[*identity.StaleDiskError](err); ok {
		return errors.Join(err, n.o.Dir.MarkStale(stale.Reason.Error()))
	}
	if above, ok := errors.AsType[*ack.FormatVersionError](err); ok && above.InForce {
		return errors.Join(err, n.o.Dir.StoreLevel(uint8(above.Version)))
	}
	return err
}

// serveApp serves the clients of the app port until ctx ends.
func (n *Node) serveApp(ctx context.Context) {
	if err := n.proxy.ServeClients(ctx, n.o.App); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		n.fail(fmt.Errorf("node: app listener: %w", err))
	}
}

// serveSelf serves requests of this machine on Options.Self until ctx ends.
func (n *Node) serveSelf(ctx context.Context) {
	if err := admin.ServeLocal(ctx, n.o.Self, n.api, n.log); err != nil {
		n.log.Warn().Err(err).Str("effect", "`shardway drain --local` does not reach this node").Msg("local admin socket failed")
	}
}

// servePeers serves the peer port until ctx ends.
func (n *Node) servePeers(ctx context.Context) {
	if err := n.port.Serve(ctx, n.o.Peer); err != nil {
		n.fail(fmt.Errorf("node: peer listener: %w", err))
	}
}
