package diagnosis

// Code identifies a kind of finding. The meaning of a code never changes, because alerts and
// scripts match on it.
type Code string

// The codes, in the order of findings of the same severity: causes come before their effects.
const (
	TwoLeaders          Code = "two-leaders"
	TwoOwners           Code = "two-owners"
	LeaseTooLong        Code = "lease-too-long"
	OwnerNotMember      Code = "owner-not-member"
	LeaderNotMember     Code = "leader-not-member"
	NoQuorum            Code = "no-quorum"
	Bootstrapping       Code = "bootstrapping"
	NoPeers             Code = "no-peers"
	ClustersDiffer      Code = "clusters-differ"
	PeerPortUnreachable Code = "peer-port-unreachable"
	JoinWaiting         Code = "join-waiting"
	NodeUnreachable     Code = "node-unreachable"
	NoHealthyApp        Code = "no-healthy-app"
	HealthPanic         Code = "health-panic"
	KeysUnreadable      Code = "keys-unreadable"
	Unavailable         Code = "unavailable"
	NoLease             Code = "no-lease"
	DuplicateNode       Code = "duplicate-node"
	DiskStalled         Code = "disk-stalled"
	NoFaultTolerance    Code = "no-fault-tolerance"
	AppUnhealthy        Code = "app-unhealthy"
	InstanceUnhealthy   Code = "instance-unhealthy"
	AppFlapping         Code = "app-flapping"
	AppNotResponding    Code = "app-not-responding"
	NoApp               Code = "no-app"
	Joining             Code = "joining"
	Acquiring           Code = "acquiring"
	NotReleased         Code = "not-released"
	QueueFull           Code = "queue-full"
	ProcessFailing      Code = "process-failing"
	WebhookFailing      Code = "webhook-failing"
	DiskSlow            Code = "disk-slow"
	ClockJump           Code = "clock-jump"
	Lagging             Code = "lagging"
	PoisonSuspect       Code = "poison-suspect"
	EvenVoters          Code = "even-voters"
	UpgradePending      Code = "upgrade-pending"
	ConfigDiffers       Code = "config-differs"
	ServiceShardsDiffer Code = "service-shards-differ"
	ServiceNotStarted   Code = "service-not-started"
	CertificateExpiring Code = "certificate-expiring"
	TagsNearlyFull      Code = "tags-nearly-full"
	Insecure            Code = "insecure"
	QuarantineStale     Code = "quarantine-stale"
	RoleMissing         Code = "role-missing"
	StaleReturn         Code = "stale-return"
	Draining            Code = "draining"
	Restarting          Code = "restarting"
	Paused              Code = "paused"
	MarkedFailed        Code = "marked-failed"
	Cordoned            Code = "cordoned"
	Quarantined         Code = "quarantined"
)

// Codes returns all codes of Findings in order.
func Codes() []Code {
	return []Code{
		TwoLeaders, TwoOwners, LeaseTooLong, OwnerNotMember, LeaderNotMember,
		NoQuorum, Bootstrapping, NoPeers, ClustersDiffer, PeerPortUnreachable, JoinWaiting, NodeUnreachable, NoHealthyApp, HealthPanic, KeysUnreadable, Unavailable, NoLease, DuplicateNode, DiskStalled, NoFaultTolerance, AppUnhealthy, InstanceUnhealthy, AppFlapping, AppNotResponding, NoApp, Joining,
		Acquiring, NotReleased, QueueFull, ProcessFailing, DiskSlow, ClockJump, Lagging, PoisonSuspect, EvenVoters, UpgradePending, ConfigDiffers, ServiceShardsDiffer, ServiceNotStarted, WebhookFailing, CertificateExpiring, TagsNearlyFull,
		Insecure, QuarantineStale, RoleMissing, StaleReturn, Draining, Restarting, Paused, MarkedFailed, Cordoned, Quarantined,
	}
}
