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

// defaultShutdownTimeout is the default of Options.ShutdownTimeout.
const defaultShutdownTimeout = 30 * time.Second

// New builds a node. It opens only the stores in the data directory.
func New(o Options) (*Node, error) {
	if o.ShutdownTimeout <= 0 {
		o.ShutdownTimeout = defaultShutdownTimeout
	}
	n := &Node{
		o: o, self: shardmap.NodeID(o.Dir.Node()), serverID: consensus.ServerID(o.Dir.Node(), o.Dir.Disk()), log: o.Log,
		failed:   make(chan error, 1),
		nonce:    rand.Uint64(), //nolint:gosec // no secret
		raftOpen: make(chan struct{}),
		ready:    make(chan struct{}),
		metrics:  newMetrics(),
	}
	if err := n.checkDirectory(); err != nil {
		return nil, err
	}
	n.loadedKeys.set(o.Keys)
	if err := n.newReplicatedState(); err != nil {
		return nil, err
	}
	n.newPeerPort()
	n.newRouter()
	n.newEventLog()
	n.newProxy()
	n.newLeadership()
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

// checkDirectory returns an error if the data directory belongs to a cluster with another number of shards, or
// to a format version that this program does not support.
func (n *Node) checkDirectory() error {
	dir := n.o.Dir
	if id, shards := dir.Cluster(); id != "" && shards != n.o.Shards {
		return fmt.Errorf("node: the cluster of this data directory has %d shards, --shards says %d: the number is fixed at birth; start with --shards %d", shards, n.o.Shards, shards)
	}
	version := ack.FormatVersion(dir.Level())
	if version == 0 { // the directory is new
		return nil
	}
	if err := version.CheckSupported(); err != nil {
		return unknownLevel(fmt.Errorf("data directory %q has %w", dir.Path(), err))
	}
	return nil
}

// newReplicatedState creates the replicated state, and the components that derive their state from it.
func (n *Node) newReplicatedState() (err error) {
	n.fsm = newFSM(n.fail)
	n.announcer = &announcer{o: &n.o, state: n.fsm.state.Load, fail: n.fail}
	n.hasher, err = keyhash.New(keyhash.Options{
		Secrets: n.o.Secrets, Cluster: n.announcer.clusterID, Shards: n.o.Shards,
		Policy: func() *ack.Policy { return n.fsm.state.Load().Policy() },
		Apply:  func(q *shardkey.Quarantine) { n.proxy.Quarantine(q) },
	})
	if err != nil {
		return err
	}
	n.announcer.hasher = n.hasher
	n.fsm.onPolicyChange = n.hasher.UpdateQuarantine
	n.view = cluster.NewView(string(n.self), n.serverID, n.o.Timing, n.fsm.state.Load)
	n.diskRecords = identity.NewRecords(n.recordsOptions())
	return nil
}

// newPeerPort creates the port for other nodes, and the components that send requests to them.
func (n *Node) newPeerPort() {
	n.port = peer.New(peer.Options{
		Node: string(n.self), Disk: n.o.Dir.Disk(), Boot: n.o.Dir.Boot(),
		Cluster: n.announcer.clusterID, AdoptCluster: n.announcer.adopt, IsKnownNode: n.view.IsKnownPeer, Lookup: n.view.Lookup, IsNodeAddr: n.view.IsNodeAddress, Dial: n.o.PeerDial, Log: n.o.Log,
		DiskRecords: n.diskRecords,
		Scheduler:   &n.scheduler,
		WrapClient:  n.o.WrapClient, WrapServer: n.o.WrapServer,
	})
	n.client = control.NewClient(n.port, n.log)
	n.leaderClient = &leaderloop.Client{
		Self: string(n.self), View: n.view, Control: n.client, CurrentLeadership: n.leadership.Load, Log: n.log,
		NoLeaderReason: func() string { return n.api.WhyNoLeader() },
	}
	n.poisonDetector = crashdetect.NewPoisonDetector(crashdetect.PoisonOptions{
		Self: string(n.self), Port: n.port, Client: n.client, Leader: n.view.Leader, StoppedOnPurpose: n.view.IsLeavingOrLeft, Log: n.log,
	})
	n.crashDetector = crashdetect.NewDetector(n.port, n.o.Clock, n.onDialRefused)
	n.stream = consensus.NewStream(n.serverID, n.diskRecords.DialRaft(n.port, n.raftOpen))
}

// newRouter creates the router, the queue of waiting requests and the components that watch the app.
func (n *Node) newRouter() {
	n.router = router.New(n.self, n.o.Shards, n.o.Clock, n.port)
	n.queue = queue.New(n.o.Queue)
	n.appWatch = newAppWatch(&n.o, n.fsm.state.Load)
	n.writeLimit = writelimit.New(n.writeLimitOptions())
	n.idleTracker = &idleshards.Tracker{Self: n.self, Clock: n.o.Clock, Router: n.router, Holds: idleshards.NewHolds(n.o.Shards), Stages: new(idleshards.Stages)}
	if n.o.CheckApp != nil {
		check := n.appWatch.wrapCheck(n.o.CheckApp, n.o.AppInstance)
		n.health = apphealth.NewChecker(check, cmp.Or(n.o.Health, apphealth.DefaultSettings()), &n.scheduler, n.o.Log, n.onAppHealthChange)
	}
}

// onAppHealthChange is called when the app has become healthy or unhealthy.
func (n *Node) onAppHealthChange() {
	n.events.Add(eventlog.AppHealth(n.self, n.health.Healthy()))
	if !n.health.Healthy() {
		n.idleTracker.Holds.Clear() // an unhealthy app has lost the held state, or its shards move away soon
	}
	chanutil.Notify(n.agent.heartbeatNow)
}

// newEventLog creates the ring buffer of events and the components that record events.
func (n *Node) newEventLog() {
	n.events = n.newEvents()
	n.leaderTracker = eventlog.NewLeaderTracker(n.events)
	n.changes = eventlog.NewMapChangeRecorder(eventlog.MapChangeOptions{Self: n.self, Ring: n.events, Queue: n.queue.Stats, OnPhase: func(phase string, d time.Duration) {
		n.metrics.mapPhases.WithLabelValues(phase).Observe(d.Seconds())
	}})
}

// newProxy creates the proxy.
func (n *Node) newProxy() {
	n.proxy = proxy.New(n.proxyOptions())
	n.idleTracker.Proxy = n.proxy
	if n.appWatch != nil {
		n.appWatch.hasConns, n.appWatch.renewConns = n.proxy.UpstreamConnected, n.proxy.RenewUpstream
	}
}

// newLeadership creates the components that this node needs when it leads.
func (n *Node) newLeadership() {
	n.leaderInbox = &leaderInbox{leading: &n.leadership, records: n.diskRecords, crashes: n.crashDetector, ownAnswers: make(chan ack.Answer, 1), log: n.log}
	n.rotation = rotation.New(rotation.Options{Self: string(n.self), Secrets: n.o.Secrets, Cluster: rotating{n}, Log: n.o.Log})
}

// proxyOptions returns Options.Proxy with the fields that connect the proxy to this node.
func (n *Node) proxyOptions() proxy.Options {
	p := n.o.Proxy
	p.Node, p.Shards, p.Cluster, p.Log = string(n.self), n.o.Shards, n.router, n.o.Log
	p.Queue, p.QueueWait = n.queue, n.o.Queue.Wait
	p.HashKey = n.hasher.Key
	p.AcceptsNewKeys = n.acceptsNewKeys
	p.LeaseExpired = n.router.IsAbortOverdue
	p.HoldShard = n.idleTracker.Hold
	p.PeerCrashed = n.poisonDetector.ConnsBroken
	p.KeepUpstream = n.appWatch != nil
	if n.health != nil && p.DialUpstream != nil {
		p.DialUpstream = n.health.WatchDial(n.appWatch.wrapDial(p.DialUpstream))
	}
	if n.hasHooks() {
		p.AcquireError = func(s shardmap.Shard) string { return n.agent.acquireFailures.reasonOf(s) }
		p.NotAcquired = func(s shardmap.Shard, epoch uint64) { n.router.OnNotAcquired(s, shardmap.Epoch(epoch)) }
	}
	p.Probe = func() (ready bool, reason string) {
		if err := n.api.Ready(); err != nil {
			return false, api.Brief(err) // without details, because the probe needs no authentication
		}
		return true, ""
	}
	p.OnHandover = func(h wsession.Handover) { n.events.Add(eventlog.WebSocketsMoved(h)) }
	p.Explain = func(why route.Reason) proxy.Explanation { return n.monitor.Explain(why) }
	return p
}

// hasHooks reports whether the app is informed of its shards. A gateway has no app.
func (n *Node) hasHooks() bool { return n.o.Hooks != nil && !n.o.Gateway }

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
	options := writelimit.Options{Self: n.self, Router: n.router, Timing: n.view.Timing, InitialTiming: n.o.Timing, Clock: n.o.Clock, Log: n.log}
	if n.o.Gateway {
		return options
	}
	options.Hook, _ = n.o.Hooks.(writelimit.Hook)
	if isAppInProcess := n.o.Proxy.Handler != nil; !isAppInProcess {
		options.Dir = n.o.Dir
	}
	return options
}

// open creates gossip and opens the stores of Raft.
func (n *Node) open() error {
	var err error
	n.gossip, err = gossip.New(gossip.Options{
		BindAddr: n.o.GossipBind, AdvertiseAddr: n.o.GossipAdvertise, JoinAddrs: n.o.Join, BootstrapExpect: n.o.BootstrapExpect, Tags: n.announcer.tags(), Keys: gossipKeys(n.o.Secrets),
		RetainForever: n.view.IsServer, SnapshotPath: n.o.Dir.GossipSnapshot(), Transport: n.o.GossipTransport, Scheduler: &n.scheduler, Log: n.o.Log,
	})
	if err != nil {
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
		WriteTimeLeft: n.writeLimit.ForOwned, NoTakeoverReason: n.shutdown.NoTakeoverReason, Started: func() time.Time { return n.started }, IsStopRequested: n.stopRequested.Load, IsStopping: n.stopping.Load,
	}
}

// shutdownOptions returns the options of the steps of an orderly stop.
func (n *Node) shutdownOptions() shutdown.Options {
	s := shutdown.Options{
		Self: n.self, Server: n.serverID, Timeout: n.o.ShutdownTimeout, LameDuck: n.o.LameDuck, Grace: n.o.HoldGrace, DrainTimeout: n.o.Pace.DrainTimeout,
		Clock: n.o.Clock, Log: n.log, Agent: n.agent, View: n.view, Gossip: n.gossip, Router: n.router, Proxy: n.proxy, Client: n.client,
		State: n.fsm.state.Load, Leadership: n.leadership.Load, ShutProxy: n.shutProxy,
	}
	if n.hasHooks() {
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

// newAgent creates the agent, its protocol and the client that sends its heartbeats.
func (n *Node) newAgent() {
	a := &agent{
		self: n.self, clock: n.o.Clock, log: n.log, metrics: n.metrics, router: n.router, proxy: n.proxy, fail: n.fail,
		weight: max(n.o.Weight, 1), restartWithin: n.o.HoldGrace,

		// Created before all other timers, because the lease depends on them.
		timer: n.scheduler.NewOnDemandTicker(), busyTimer: n.scheduler.NewBusyTicker(clock.MinInterval),
		stateChanged: n.fsm.agentHint, heartbeatNow: make(chan struct{}, 1), heartbeatIfNearlyDue: make(chan struct{}, 1),
		callRequests: make(chan func()), runReturned: make(chan struct{}),

		newestState:     n.fsm.state.Load,
		keyConfigDigest: n.loadedKeys.digest.Load,
		appHealthy:      func() bool { return n.health == nil || n.health.Healthy() },
		appHealth:       n.appHealth,
		appChecked:      func() bool { return n.health == nil || n.health.Checked() },
		appWatch:        n.appWatch,

		answers: make(chan ack.Answer), ownAnswers: n.leaderInbox.ownAnswers, persistentDuplicate: make(chan string, 1),
		overdue:          overdueDetector{report: n.o.Overdue},
		orphanedForwards: orphanedForwards{log: n.log, abort: n.proxy.CancelForwarded},
		moveStages:       n.idleTracker.Stages,
		changes:          n.changes,
		recordEvent:      func(e event.Event) { n.events.Add(e) },
		receivedAt:       make(map[shardmap.Shard]time.Duration),
	}
	n.agent = a
	a.boot.Store(n.o.Dir.Boot())
	if c, ok := n.o.Clock.(clock.CPUTimer); ok {
		a.pauseDetector.cpuTime, n.scheduler.CPUTime = c.CPUTime, c.CPUTime
	}
	_, n.scheduler.UseKernelTimer = n.o.Clock.(clock.KernelClock)
	n.heartbeats = n.newHeartbeatClient()
	a.transmitHeartbeat = n.heartbeats.Send
	a.protocol = ackagent.New(ackagent.Options{
		Node: n.self, Server: n.serverID, Boot: n.o.Dir.Boot(), Nonce: n.nonce, Pace: n.o.Pace, Timing: n.o.Timing,
		Gateway: n.o.Gateway, Zone: n.o.Zone, Hooks: n.newHookOptions(),
		Gate: a, RaftTerm: func() uint64 { return n.raft.Term() }, SendHeartbeat: a.send, RaiseBoot: n.raiseBoot,
		ConfirmsAnswers: func() bool { return !n.raft.IsLeader() && n.isVoter() },
	}, n.o.Clock.Precise())
}

// newHeartbeatClient returns the client that sends the heartbeats of the agent to the leader.
func (n *Node) newHeartbeatClient() *heartbeat.Client {
	return heartbeat.NewClient(heartbeat.ClientOptions{
		Self: n.self, Port: n.port, Log: n.log, OldConnTimeout: func() time.Duration { return n.view.Timing().DeadAfter },
		Leader: func() string { return n.raft.Leader() }, DeliverOwn: n.leaderInbox.deliverOwnHeartbeat, Answers: n.agent.answers,
		OnConnClosed: func(node string, boot uint64) { n.crashDetector.ConnClosed(node, crashdetect.Process{Boot: boot}) },
		Trigger:      func() { chanutil.Notify(n.agent.heartbeatNow) },
	})
}

// newHookOptions creates the hookRunner of the agent, and returns the options of the protocol for it. nil means
// that the app has no hooks.
func (n *Node) newHookOptions() *ackagent.HookOptions {
	if !n.hasHooks() {
		return nil
	}
	runner := newHookRunner(n.o.Hooks, n.router.InFlight, n.log)
	runner.onAcquireFailed, runner.isOverdue = n.metrics.acquireFailures.Inc, n.router.IsAbortOverdue
	n.router.OnNotAcquired = runner.recordNotAcquired
	n.agent.hooks = runner
	return &ackagent.HookOptions{
		App: runner, SendReleases: runner.sendReleases, ReleaseEnded: n.agent.onReleaseEnded,
		ReleaseTimeout: n.o.ReleaseTimeout, AcquireTimeout: n.o.AcquireTimeout,
	}
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

// onDiskStall records and logs that a disk write has stalled, or that the disk responds again. Package
// consensus isolates a leader whose disk has stalled from the other voters. Otherwise it would continue to
// send heartbeats, and would never be replaced.
func (n *Node) onDiskStall(isStalled bool) {
	n.diskStalled.Store(isStalled)
	if !isStalled {
		n.log.Info().Str("path", n.o.Dir.Path()).Msg("disk responds again")
		return
	}
	n.log.Error().Str("path", n.o.Dir.Path()).Str("effect", "the other nodes continue without this node").Msg("disk stalled, check or stop node")
}

// onDialRefused is called when the heartbeat connection to a process of a node broke, and the address of the
// node then refused a new connection (the redial). That is evidence that the process has ended. If this node
// leads, it passes the evidence to the leader loop. Otherwise it campaigns if the process was the leader.
// dialedAt is the time at which the redial started. mustRepeat means that the redial must be repeated.
func (n *Node) onDialRefused(node string, ended crashdetect.Process, dialedAt time.Duration) (mustRepeat bool) {
	leadership := n.leadership.Load()
	if leadership == nil {
		n.campaigner.OnLeaderEnded(node)
		return false
	}
	n.leaderInbox.send(leader.CrashEvidence{Node: shardmap.NodeID(node), Boot: ended.Boot, Nonce: ended.Nonce, RedialStartedAt: dialedAt})
	return dialedAt < leadership.StartedAt() // a redial before the election is no evidence
}

var errDuplicate = errors.New("duplicate-node")

// wait returns when the node must stop. The result is nil if ctx has ended, otherwise the error of the
// failure.
func (n *Node) wait(ctx context.Context) error {
	refusals := n.gossip.Refusals()
	supersedeChecks := make(chan identity.SupersedeCheck, 1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-n.failed:
			return n.recordFatal(err)
		case refusal := <-refusals:
			hasServed := n.agent.lastAnswer.Load() > 0
			if refusal.Superseded {
				n.background.Go(func() {
					supersedeChecks <- identity.CheckSuperseded(ctx, n.port, n.announcer.clusterID(), refusal, hasServed, n.log)
				})
				refusals = nil // ignore other refusals until the result is known
				continue
			}
			if !hasServed {
				return refusal
			}
			n.log.Warn().Err(refusal).Msg("not joined") // a node that serves continues without the node that it cannot join
		case check := <-supersedeChecks:
			if check.By != "" { // another node has confirmed that this node is superseded
				return errors.Join(check.Claim, n.o.Dir.MarkSuperseded(check.By))
			}
			if !check.Served {
				return check.Claim
			}
			refusals = n.gossip.Refusals()
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
	if unsupported, ok := errors.AsType[*ack.FormatVersionError](err); ok && unsupported.InForce {
		return errors.Join(err, n.o.Dir.StoreLevel(uint8(unsupported.Version)))
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
