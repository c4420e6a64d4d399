package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/event"
	"shardway/event/webhook"
	"shardway/internal/chanutil"
	"shardway/internal/clock"
	"shardway/node/adminapi"
	"shardway/node/apphealth"
	"shardway/node/appinstance"
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
	"shardway/node/metrics"
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
	options  Options
	self     shardmap.NodeID
	serverID string // ID of this node's Raft server
	log      zerolog.Logger
	nonce    uint64 // random number that distinguishes processes with the same boot number; not secret

	// The replicated state, and the parts that need no other node.
	fsm         *fsm                   // the replicated state
	stores      *disk.Stores           // the stores of Raft
	diskStall   diskStall              // whether a write to the disk has stalled
	hasher      *keyhash.Hasher        // hashes shard keys, and recognizes quarantined keys
	loadedKeys  loadedKeys             // key configuration of this node's settings
	router      *router.Router         // the routing table and the lease
	queue       *queue.Queue           // requests that wait, for example while their shard moves
	proxy       *proxy.Server          // serves the clients
	processes   *processService        // the processes of the app; nil if the node starts none
	health      *apphealth.Group       // nil for a gateway
	appWatches  []*appinstance.Watch   // by app instance: detects restarts of the app
	instances   *appinstance.Selection // nil if the node has one app instance
	writeLimit  *writelimit.Limit      // how long the app may write without contact to this node
	idleTracker *idleshards.Tracker    // which shards of this node are idle
	scheduler   clock.Scheduler        // shared source of periodic wake-ups

	// Connections to other nodes, and their state.
	port           *peer.Port                     // connections between nodes
	client         *control.Client                // requests to other nodes
	gossip         *gossip.Gossip                 // finds the other nodes
	announcer      *announcer                     // announces this node by gossip
	view           *cluster.View                  // state of the other nodes
	identities     identities                     // of the processes of this node and of other nodes
	crashDetector  *crashdetect.Detector          // detects that processes of other nodes have exited
	poisonDetector *crashdetect.PoisonDetector    // detects keys whose requests may crash processes
	unreachable    *crashdetect.UnreachableOwners // finds the nodes that this node cannot reach
	diskRecords    *identity.Records              // statements of the other nodes about their disks
	greeter        *identity.Greeter              // exchanges these statements with the other voters
	addressChanges *identity.AddressChanges       // detects nodes whose addresses have changed
	rotation       *rotation.Rotation             // rotation of the cluster secret

	// Raft. openRaft sets raft, bootstrapper, duplicates, campaigner and suspicion.
	stream       *consensus.Stream // the connections of Raft
	raft         *consensus.Raft
	raftOpen     chan struct{}                 // closed after raft was set
	bootstrapper *membership.Bootstrapper      // creates the cluster
	ownJoin      *membership.OwnJoin           // state of the join request of this node
	duplicates   *membership.DuplicateDetector // detects another process with the ID of this node
	campaigner   *campaign.Campaigner          // starts elections
	suspicion    *campaign.Suspicion           // whether this node suspects its leader
	background   sync.WaitGroup                // goroutines that wait for Raft or other nodes; all end when Raft stops

	// The lease protocol and the leader.
	agent        *agent             // this node's side of the lease protocol
	heartbeats   *heartbeat.Client  // sends the heartbeats of the agent to the leader
	leaderClient *leaderloop.Client // requests to the leader
	leaderInbox  *leaderInbox       // passes messages to the leader loop
	leaderRunner leaderRunner       // runs the leader loop while this node leads

	// Metrics, events, findings and the admin port.
	api           *adminapi.API     // the services of the admin port
	monitor       *findings.Monitor // computes the findings
	metrics       *metrics.Metrics
	events        *event.Ring                 // recent events, for the admin port
	mapChanges    *eventlog.MapChangeRecorder // records an event for each map change
	webhook       *webhook.Sender             // sends the events to a receiver
	joinSteps     *eventlog.JoinRecorder      // records how long the steps of the join took
	leaderTracker *eventlog.LeaderTracker     // records an event for each new leader

	// Start and stop.
	startedAt     time.Time
	ready         chan struct{}      // closed when the node serves requests
	shutdown      *shutdown.Sequence // the steps of an orderly stop
	stopRequested atomic.Bool        // the node was asked to stop
	stopping      atomic.Bool        // the steps of leave or hold are done, or the node has failed
	failures      *failures          // the errors that must stop the node
}

// defaultShutdownTimeout is the default of Options.ShutdownTimeout.
const defaultShutdownTimeout = 30 * time.Second

// New builds a node. It opens only the stores in the data directory.
func New(options Options) (*Node, error) {
	if options.ShutdownTimeout <= 0 {
		options.ShutdownTimeout = defaultShutdownTimeout
	}
	dir := options.Dir
	if err := checkDirectory(dir, &options); err != nil {
		return nil, err
	}
	n := &Node{
		options: options, self: shardmap.NodeID(dir.Node()), serverID: consensus.ServerID(dir.Node(), dir.Disk()), log: options.Log,
		nonce:     rand.Uint64(), //nolint:gosec // no secret
		failures:  newFailures(dir),
		diskStall: diskStall{path: dir.Path(), log: options.Log},
		raftOpen:  make(chan struct{}),
		ready:     make(chan struct{}),
		metrics:   metrics.New(serviceNames(options.Proxy.ServiceInstances)...),
	}
	n.loadedKeys.set(options.Keys)
	if err := n.newReplicatedState(); err != nil {
		return nil, err
	}
	n.newPeerPort()
	n.newRouter()
	if err := n.newEventLog(); err != nil {
		return nil, err
	}
	n.newProxy()
	n.newLeadership()
	if err := n.openStores(); err != nil {
		return nil, err
	}
	n.greeter = &identity.Greeter{Records: n.diskRecords, Port: n.port, View: n.view, Scheduler: &n.scheduler, Background: &n.background}
	n.addressChanges = &identity.AddressChanges{
		Gossip: n.gossip, View: n.view, Port: n.port, Records: n.diskRecords, RequestIdentity: peerClient{n.client}.RequestIdentity, Log: n.log,
	}
	n.newAgent()
	n.shutdown = shutdown.New(n.shutdownOptions())
	n.api = adminapi.New(n.adminOptions())
	n.monitor = findings.New(n.monitorOptions())
	n.followSecrets()
	return n, nil
}

// checkDirectory returns an error if the data directory belongs to a cluster with a different number of shards, or
// has a format version that this program does not support.
func checkDirectory(dir *disk.Dir, options *Options) error {
	// With services, the log contains the shards of each.
	if id, shards := dir.Cluster(); id != "" && len(options.Services) == 0 && shards != options.Shards {
		return fmt.Errorf("node: the cluster of this data directory has %d shards, but --shards is %d: the number of shards cannot change; start with --shards %d", shards, options.Shards, shards)
	}
	version := ack.FormatVersion(dir.Level())
	if version == 0 { // the directory is new
		return nil
	}
	if err := version.CheckSupported(); err != nil {
		return unsupportedFormatError(fmt.Errorf("data directory %q has %w", dir.Path(), err))
	}
	return nil
}

// newReplicatedState creates the replicated state, and the components that derive their state from it.
func (n *Node) newReplicatedState() (err error) {
	n.fsm = newFSM(n.failures.fail)
	n.announcer = &announcer{options: &n.options, state: n.fsm.state.Load, fail: n.failures.fail, services: n.configuredServices}
	n.hasher, err = keyhash.New(keyhash.Options{
		Secrets: n.options.Secrets, Cluster: n.announcer.clusterID, Shards: n.options.Shards,
		State: n.fsm.state.Load,
		Apply: func(q *shardkey.Quarantine) { n.proxy.Quarantine(q) },
	})
	if err != nil {
		return err
	}
	n.announcer.hasher = n.hasher
	n.fsm.onPolicyChange = n.hasher.UpdateQuarantine
	n.view = cluster.NewView(string(n.self), n.serverID, n.options.Timing, n.fsm.state.Load)
	n.diskRecords = identity.NewRecords(n.recordsOptions())
	n.ownJoin = membership.NewOwnJoin(n.log)
	return nil
}

// newPeerPort creates the port for other nodes, and the components that send requests to them.
func (n *Node) newPeerPort() {
	n.port = peer.New(peer.Options{
		Node: string(n.self), Disk: n.options.Dir.Disk(), Boot: n.options.Dir.Boot(),
		Cluster: n.announcer.clusterID, AdoptCluster: n.announcer.adopt, IsKnownNode: n.view.IsKnownPeer, Lookup: n.view.Lookup, IsNodeAddr: n.view.IsNodeAddress, Dial: n.options.PeerDial, Log: n.options.Log,
		DiskRecords: n.diskRecords,
		Scheduler:   &n.scheduler,
		WrapClient:  n.options.WrapClient, WrapServer: n.options.WrapServer,
	})
	n.client = control.NewClient(n.port, n.log)
	n.identities = identities{self: string(n.self), dir: n.options.Dir, nonce: n.nonce, peers: peerClient{n.client}}
	n.leaderClient = &leaderloop.Client{
		Self: string(n.self), View: n.view, Control: n.client, CurrentLeadership: n.leaderRunner.leadership.Load, Log: n.log,
		NoLeaderReason: func() string { return n.api.WhyNoLeader() },
	}
	n.poisonDetector = crashdetect.NewPoisonDetector(crashdetect.PoisonOptions{
		Self: string(n.self), Port: n.port, Client: n.client, Leader: n.view.Leader, StoppedOnPurpose: n.view.IsLeavingOrLeft, Log: n.log,
	})
	n.crashDetector = crashdetect.NewDetector(n.port, n.options.Clock, n.onDialRefused)
	n.unreachable = &crashdetect.UnreachableOwners{
		Port: n.port, Scheduler: &n.scheduler, Log: n.log, IsOwner: n.isWatchedOwner, Excluded: n.unreachableExcluded,
		Stalled:       func() []string { return n.proxy.Stalled() },
		HeardRecently: func(node string) bool { return receivedRecently(n.router, n.diskRecords, node) },
		DeadAfter:     func() time.Duration { return n.view.Timing().DeadAfter },
		Abort: func(node string) int {
			return n.proxy.CancelForwarded(func(_ shardmap.Shard, owner string) bool { return owner == node })
		},
	}
	n.stream = consensus.NewStream(n.serverID, n.diskRecords.DialRaft(n.port, n.raftOpen))
}

// newRouter creates the router, the queue of waiting requests and the components that watch the app.
func (n *Node) newRouter() {
	n.router = router.New(n.self, n.options.Shards, n.options.Clock, n.port)
	n.router.InFlight.OnFirstEnded = func(ownedSince time.Duration) {
		n.metrics.FirstRequests.Observe((n.options.Clock.Precise() - ownedSince).Seconds())
	}
	n.queue = queue.New(n.options.Queue)
	n.newAppHealth()
	n.writeLimit = writelimit.New(n.writeLimitOptions())
	n.idleTracker = &idleshards.Tracker{Self: n.self, Clock: n.options.Clock, Router: n.router, Holds: idleshards.NewHolds(), Stages: new(idleshards.Stages)}
}

// onAppHealthChange is called when the app has become healthy or unhealthy.
func (n *Node) onAppHealthChange() {
	n.events.Add(eventlog.AppHealth(n.self, n.health.Healthy()))
	n.updateAfterHealthChange()
}

// updateAfterHealthChange reports to the leader that the health of the app or of an instance has changed.
func (n *Node) updateAfterHealthChange() {
	if !n.health.Healthy() {
		n.idleTracker.Holds.Clear() // an unhealthy app has lost the held state, or its shards move away soon
	}
	chanutil.Notify(n.agent.heartbeatNow)
}

// newEventLog creates the ring buffer of events, the components that record events, and the sender of the webhook.
func (n *Node) newEventLog() (err error) {
	n.events = event.NewRing(event.Options{Node: string(n.self), RunID: n.nonce, Stamp: func() event.Stamp {
		at := event.Stamp{Boot: n.agent.boot.Load(), Epoch: uint64(n.router.State().Committed().Epoch())}
		select {
		case <-n.raftOpen:
			at.Term = n.raft.Term()
		default:
		}
		return at
	}})
	n.leaderTracker = eventlog.NewLeaderTracker(n.events, n.leaderEnd)
	n.mapChanges = eventlog.NewMapChangeRecorder(eventlog.MapChangeOptions{
		Self: n.self, Ring: n.events, Queue: n.queue.Stats,
		OnPhase:     func(phase string, d time.Duration) { n.metrics.MapPhases.WithLabelValues(phase).Observe(d.Seconds()) },
		OnCommitted: func(moved int) { n.metrics.ShardsMoved.Add(float64(moved)) },
		OnAbandoned: func(reason string) { n.metrics.MapChangesFailed.WithLabelValues(reason).Inc() },
	})
	n.joinSteps = eventlog.NewJoinRecorder(eventlog.JoinOptions{
		Self: string(n.self), Ring: n.events, IsGateway: n.options.Gateway, ChecksApp: n.health != nil, Now: n.options.Clock.Precise,
	})
	n.webhook, err = webhook.New(webhook.Options{
		URL: n.options.Webhook, Ring: n.events, Log: n.log, UserAgent: "shardway/" + n.options.Version, Transport: n.options.WebhookTransport,
	})
	return err
}

// newProxy creates the proxy.
func (n *Node) newProxy() {
	n.proxy = proxy.New(n.proxyOptions())
	n.idleTracker.Proxy = n.proxy
	n.attachProcesses()
	for i, watch := range n.appWatches {
		if watch != nil {
			watch.HasConns = func() bool { return n.proxy.UpstreamConnected(i) }
			watch.RenewConns = func() { n.proxy.RenewUpstream(i) }
		}
	}
}

// newLeadership creates the components that this node needs when it leads.
func (n *Node) newLeadership() {
	runner := &n.leaderRunner
	runner.view, runner.scheduler, runner.crashDetector, runner.leaderTracker = n.view, &n.scheduler, n.crashDetector, n.leaderTracker
	runner.elections, runner.sendHeartbeat = n.metrics.Elections, func() { chanutil.Notify(n.agent.heartbeatNow) }
	runner.newLoop = func(term uint64) *leaderloop.Loop { return leaderloop.New(n.leaderOptions(), term) }
	n.leaderInbox = &leaderInbox{leadership: &runner.leadership, records: n.diskRecords, crashes: n.crashDetector, ownAnswers: make(chan ack.Answer, 1), timing: n.view.Timing, log: n.log}
	n.leaderInbox.initHeartbeats()
	rotationCluster := rotationCluster{view: n.view, client: n.client, leaderClient: n.leaderClient}
	n.rotation = rotation.New(rotation.Options{Self: string(n.self), Secrets: n.options.Secrets, Cluster: rotationCluster, Log: n.options.Log})
}

// proxyOptions returns Options.Proxy with the fields that connect the proxy to this node.
func (n *Node) proxyOptions() proxy.Options {
	options := n.options.Proxy
	options.Node, options.Shards, options.Cluster, options.Log = string(n.self), n.options.Shards, n.router, n.options.Log
	options.Queue, options.QueueWait = n.queue, n.options.Queue.Wait
	options.HashKey, options.WrapKeys = n.hasher.Key, n.hasher.WrapKeys
	options.AcceptsNewKeys = func(node string) bool { return n.agent.acceptsNewKeys(node) }
	options.LeaseExpired = n.router.IsAbortOverdue
	options.HoldShard = n.idleTracker.Hold
	options.PeerCrashed, options.PeerUnreachable = n.poisonDetector.ConnsBroken, n.unreachable.Suspect
	options.KeepUpstream = n.appWatches[0] != nil
	if n.options.Processes != nil {
		options.Processes = n.options.Processes
	}
	if n.health != nil {
		options.DialUpstream, options.FurtherUpstreams = appinstance.WrapDials(n.health, n.appWatches, options.DialUpstream, options.FurtherUpstreams)
	}
	if n.instances != nil {
		options.InstanceHealthy = n.health.IsHealthy
	}
	if n.options.hasHooks() {
		options.AcquireError = func(s shardmap.Shard) string { return n.agent.acquireFailures.reasonOf(s) }
		options.NotAcquired = func(s shardmap.Shard, epoch uint64) { n.router.OnNotAcquired(s, shardmap.Epoch(epoch)) }
	}
	options.Probe = func() (ready bool, reason string) {
		if err := n.api.Ready(); err != nil {
			return false, api.Brief(err) // without details, because the probe needs no authentication
		}
		return true, ""
	}
	options.OnHandover = func(h wsession.Handover) { n.events.Add(eventlog.WebSocketsMoved(h)) }
	options.Explain = func(why route.Reason) route.Explanation { return n.monitor.Explain(why) }
	return options
}

// recordsOptions returns the options of the records of the disks of all nodes.
func (n *Node) recordsOptions() identity.RecordsOptions {
	return identity.RecordsOptions{
		Server: n.serverID, Nonce: n.nonce, Dir: n.options.Dir, View: n.view, Log: n.log,
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
		Fail: n.failures.fail,
	}
}

// writeLimitOptions returns the options of the limit for writes of the app.
func (n *Node) writeLimitOptions() writelimit.Options {
	options := writelimit.Options{Self: n.self, Router: n.router, Timing: n.view.Timing, InitialTiming: n.options.Timing, Clock: n.options.Clock, Log: n.log}
	if n.options.Gateway {
		return options
	}
	options.Hooks = n.options.AliveHooks
	if hook, hasHook := n.options.Hooks.(writelimit.Hook); hasHook && len(options.Hooks) == 0 {
		options.Hooks = []writelimit.Hook{hook}
	}
	if endsWithNode := n.options.Proxy.Handler != nil || n.options.Processes != nil; !endsWithNode {
		options.Dir = n.options.Dir
	}
	return options
}

// openStores creates gossip and opens the stores of Raft.
func (n *Node) openStores() error {
	var err error
	n.gossip, err = gossip.New(gossip.Options{
		BindAddr: n.options.GossipBind, AdvertiseAddr: n.options.GossipAdvertise, JoinAddrs: n.options.Join, BootstrapExpect: n.options.BootstrapExpect, Tags: n.announcer.tags(), Keys: gossipKeys(n.options.Secrets),
		RetainForever: n.view.IsServer, SnapshotPath: n.options.Dir.GossipSnapshot(), Transport: n.options.GossipTransport, Scheduler: &n.scheduler, Log: n.options.Log,
	})
	if err != nil {
		return err
	}
	n.view.Gossip, n.announcer.gossip = n.gossip, n.gossip
	if n.stores, err = n.options.Dir.OpenStores(disk.StoreOptions{Log: n.options.Log}); err != nil {
		return err
	}
	n.stores.SetWriteObserver(func(d time.Duration) { n.metrics.DiskWrites.Observe(d.Seconds()) })
	return nil
}

// adminOptions returns the options of the admin API.
func (n *Node) adminOptions() adminapi.Options {
	return adminapi.Options{
		Self: n.self, Dir: n.options.Dir, Registry: n.fsm.registry, Version: n.options.Version, Shards: n.options.Shards, Gateway: n.options.Gateway, Replicas: n.options.Replicas, Timing: n.options.Timing, ManualJoins: n.options.ManualJoins, JoinTimeout: n.options.JoinTimeout, Settings: n.options.Settings, PeerDial: n.options.PeerDial,
		Clock: n.options.Clock, Log: n.log, View: n.view, Leader: n.leaderClient, Client: n.client, Router: n.router, Proxy: n.proxy, Queue: n.queue, Health: n.health, Agent: n.agent,
		Findings: func() adminapi.Findings {
			result := n.monitor.Result()
			return adminapi.Findings{Inputs: result.Inputs, List: result.Findings}
		},
		HeldShardCount: n.idleTracker.HeldCount, LoadedKeys: n.loadedKeys.digest.Load, Quarantined: n.hasher.Quarantined, HashKeyID: n.hasher.KeyID,
		WriteTimeLeft: n.writeLimit.ForOwned, NoTakeoverReason: n.shutdown.NoTakeoverReason, Started: func() time.Time { return n.startedAt }, IsStopRequested: n.stopRequested.Load, IsStopping: n.stopping.Load,
	}
}

// shutdownOptions returns the options of the steps of an orderly stop.
func (n *Node) shutdownOptions() shutdown.Options {
	options := shutdown.Options{
		Self: n.self, Server: n.serverID, Timeout: n.options.ShutdownTimeout, LameDuck: n.options.LameDuck, Grace: n.options.HoldGrace, DrainTimeout: n.options.Pace.DrainTimeout,
		Clock: n.options.Clock, Log: n.log, Agent: n.agent, View: n.view, Gossip: n.gossip, Router: n.router, Proxy: n.proxy, Client: n.client,
		State: n.fsm.state.Load, Leadership: n.leaderRunner.leadership.Load, ShutProxy: n.shutProxy,
	}
	if n.options.hasHooks() {
		options.ReleaseTimeout = n.options.ReleaseTimeout
	}
	return options
}

// monitorOptions returns the options of the monitor that computes the findings.
func (n *Node) monitorOptions() findings.Options {
	return findings.Options{
		Self: n.self, Gateway: n.options.Gateway, Shards: n.options.Shards, BootstrapExpect: n.options.BootstrapExpect, Joins: len(n.options.Join) > 0, RaftTimeout: n.options.RaftTimeout, Exposed: n.options.Exposed,
		Clock: n.options.Clock, Scheduler: &n.scheduler, Log: n.log, Events: n.events,
		View: n.view, Gossip: n.gossip, State: n.fsm.state.Load, Servers: n.view.Servers, Statement: findings.NewStatementSource(n.view, n.router).Current, Router: n.router, Proxy: n.proxy, Queue: n.queue, Stores: n.stores, Health: n.health, Agent: n.agent, API: n.api,
		Port: n.port, Client: n.client, Leader: n.leaderClient, Poison: n.poisonDetector,
		OwnJoin:          n.ownJoin,
		Bootstrapper:     func() *membership.Bootstrapper { return n.bootstrapper },
		AddressChanges:   n.addressChanges.List,
		FailingProcesses: n.processes.failureSummary,
		Webhook:          n.webhook.Status,
		ServiceConflicts: n.serviceConflicts,
		RequestIdentity: func(ctx context.Context, node string) error {
			_, err := peerClient{n.client}.RequestIdentity(ctx, node)
			return err
		},
		IsStopping: n.stopping.Load, IsDiskStalled: n.diskStall.isStalled.Load,
	}
}

// Findings returns the current findings of this node. The caller must not modify the slice.
func (n *Node) Findings() []diagnosis.Finding { return n.monitor.Result().Findings }

// snapshotCheckInterval is the interval at which Raft checks whether a snapshot is due.
const snapshotCheckInterval = 10 * time.Second

// openRaft restores the state and starts Raft.
func (n *Node) openRaft() error {
	var err error
	n.raft, err = consensus.Open(consensus.Options{
		ID: n.serverID, Stream: n.stream, FSM: n.fsm, Stores: n.stores, OnFailure: n.failures.fail, OnStall: n.diskStall.set, Log: n.options.Log,
		HeartbeatTimeout: n.options.RaftTimeout, ElectionTimeout: n.options.RaftTimeout, LeaderLease: n.options.RaftTimeout,
		SnapshotInterval: snapshotCheckInterval, OnTerm: n.diskRecords.Table().Term, OnHeartbeat: n.onRaftHeartbeat, OnSnapshot: n.onSnapshot,
	})
	if broken := n.stores.Err(); broken != nil {
		return broken // this error already contains a remedy
	}
	if err != nil {
		select {
		case unread := <-n.failures.first: // the error of fsm.Restore is more specific than that of the Raft library
			return unread
		default:
		}
		return fmt.Errorf("node: the data directory cannot be used: "+remedyDamaged+": %w", err)
	}
	n.view.Raft = n.raft
	n.agent.lastIndexAtStart.Store(n.raft.LastIndex())
	n.campaigner = &campaign.Campaigner{
		Raft: n.raft, IsStopping: n.stopping.Load, OnCampaign: func(cause string) { n.metrics.Campaigns.WithLabelValues(cause).Inc() }, Log: n.log,
	}
	n.suspicion = campaign.NewSuspicion(campaign.SuspicionOptions{
		Self: n.self, Server: n.serverID, HeartbeatInterval: n.options.Pace.Heartbeat, Clock: n.options.Clock, Campaigner: n.campaigner, Agent: n.agent, Client: n.client, Background: &n.background, Log: n.log,
	})
	n.agent.suspicion = n.suspicion
	n.openMembership()
	close(n.raftOpen)
	return nil
}

// newAgent creates the agent, its protocol and the client that sends its heartbeats.
func (n *Node) newAgent() {
	a := &agent{
		self: n.self, clock: n.options.Clock, log: n.log, metrics: n.metrics, router: n.router, proxy: n.proxy, fail: n.failures.fail,
		weight: max(n.options.Weight, 1), restartWithin: n.options.HoldGrace,

		// Created before all other timers, because the lease depends on them.
		timer: n.scheduler.NewOnDemandTicker(), busyTimer: n.scheduler.NewBusyTicker(clock.MinInterval),
		stateChanged: n.fsm.wakeAgent, heartbeatNow: make(chan struct{}, 1), heartbeatIfNearlyDue: make(chan struct{}, 1),
		callRequests: make(chan func()), runReturned: make(chan struct{}),

		newestState:     n.fsm.state.Load,
		keyConfigDigest: n.loadedKeys.digest.Load,
		appHealthy:      func() bool { return n.health == nil || n.health.Healthy() },
		appHealth: func() ack.AppHealth {
			if n.health == nil {
				return ack.AppHealth{}
			}
			return n.health.Report()
		},
		appChecked: func() bool { return n.health == nil || n.health.Checked() },
		appWatch:   n.appWatches[0],
		instances:  n.instances,
		services:   appinstance.NewServices(n.self, instanceBits(n.options.Proxy.ServiceInstances)),

		unreachable: n.unreachable.Unreachable,

		answers: make(chan ack.Answer), ownAnswers: n.leaderInbox.ownAnswers, persistentDuplicate: make(chan string, 1),
		overdue:          overdueDetector{report: n.options.Overdue},
		orphanedForwards: orphanedForwards{log: n.log, abort: n.proxy.CancelForwarded},
		moveStages:       n.idleTracker.Stages,
		changes:          n.mapChanges,
		join:             n.joinSteps,
		recordEvent:      func(e event.Event) { n.events.Add(e) },
		receivedAt:       make(map[shardmap.Shard]time.Duration),
		startedAt:        n.options.Clock.Precise(),
	}
	n.agent = a
	a.boot.Store(n.options.Dir.Boot())
	if c, ok := n.options.Clock.(clock.CPUTimer); ok {
		a.pauseDetector.cpuTime, n.scheduler.CPUTime = c.CPUTime, c.CPUTime
	}
	_, n.scheduler.UseKernelTimer = n.options.Clock.(clock.KernelClock)
	n.heartbeats = n.newHeartbeatClient()
	a.transmitHeartbeat = n.heartbeats.Send
	a.protocol = ackagent.New(ackagent.Options{
		Node: n.self, Server: n.serverID, Boot: n.options.Dir.Boot(), Nonce: n.nonce, Pace: n.options.Pace, Timing: n.options.Timing,
		Gateway: n.options.Gateway, Zone: n.options.Zone, Roles: slices.Sorted(slices.Values(n.options.Roles)), Hooks: n.newHookOptions(),
		Gate: a, RaftTerm: func() uint64 { return n.raft.Term() }, SendHeartbeat: a.send,
		RaiseBoot: func(known uint64) (boot uint64, isStored bool) {
			boot, err := n.options.Dir.RaiseBoot(known)
			n.port.SetBoot(boot)
			if err != nil {
				n.failures.fail(err)
			}
			return boot, err == nil
		},
		IsFollowingVoter: func() bool { return !n.raft.IsLeader() && n.view.IsVoter() },
	}, n.options.Clock.Precise())
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

// newHookOptions creates the hookRunner of the agent, and returns the protocol's options for it, or nil if the app
// has no hooks.
func (n *Node) newHookOptions() *ackagent.HookOptions {
	if !n.options.hasHooks() {
		return nil
	}
	runner := newHookRunner(n.options.Hooks, n.router.InFlight, n.log)
	runner.onAcquireFailed, runner.isOverdue, runner.metrics = n.metrics.AcquireFailures.Inc, n.router.IsAbortOverdue, n.metrics.Hooks
	n.router.OnNotAcquired = runner.recordNotAcquired
	n.agent.hooks = runner
	return &ackagent.HookOptions{
		App: runner, SendReleases: runner.sendReleases, ReleaseEnded: n.agent.onReleaseEnded,
		ReleaseTimeout: n.options.ReleaseTimeout, AcquireTimeout: n.options.AcquireTimeout,
	}
}

// Scheduler returns the shared source of periodic wake-ups of this process, so that other components wake up
// together with the node. It runs while Run runs.
func (n *Node) Scheduler() *clock.Scheduler { return &n.scheduler }

// onDialRefused is called when the heartbeat connection to a process of a node broke, and the address of the node
// then refused a new connection (the redial). That is evidence that the process has exited. If this node leads, it
// passes the evidence to the leader loop. Otherwise it campaigns if the process was the leader's. dialedAt is the
// time at which the redial started. mustRepeat reports whether the redial must be repeated.
func (n *Node) onDialRefused(node string, ended crashdetect.Process, dialedAt time.Duration) (mustRepeat bool) {
	leadership := n.leaderRunner.leadership.Load()
	if leadership == nil {
		n.campaigner.OnLeaderEnded(node)
		return false
	}
	n.leaderInbox.send(leader.CrashEvidence{Node: shardmap.NodeID(node), Boot: ended.Boot, Nonce: ended.Nonce, RedialStartedAt: dialedAt})
	return dialedAt < leadership.StartedAt() // a redial before the election is no evidence
}

var errDuplicate = errors.New("duplicate-node")

// waitForStop returns when the node must stop. It returns nil if ctx has ended, and otherwise the error of the
// failure.
func (n *Node) waitForStop(ctx context.Context) error {
	refusals := n.gossip.Refusals()
	supersedeChecks := make(chan identity.SupersedeCheck, 1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-n.failures.first:
			return n.failures.recordInDir(err)
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
				return errors.Join(check.Claim, n.options.Dir.MarkSuperseded(check.By))
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
