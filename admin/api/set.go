package api

// Set contains the services of a node that the admin port offers. A nil service means that the node
// does not offer it: requests for it get a response with status 404.
type Set struct {
	// Cluster is required.
	Cluster Cluster
	// Checkup serves GET /v1/checkup.
	Checkup CheckupService
	// Drain serves GET /v1/drain.
	Drain DrainService
	// History serves GET /v1/shards/N.
	History HistoryService
	// Hot serves GET /v1/hot.
	Hot HotService
	// Joins serves GET /v1/joins.
	Joins JoinsService
	// Keys identifies keys for POST /v1/quarantine and POST /v1/lift.
	Keys KeyHasher
	// Locks serves /v1/locks and /v1/locks/NAME.
	Locks LockService
	// Owned serves GET /v1/owned.
	Owned OwnedService
	// Plan serves GET /v1/plan.
	Plan PlanService
	// Policy serves GET /v1/policy.
	Policy PolicyService
	// Processes serves GET /v1/processes.
	Processes ProcessService
	// Rotation serves POST /v1/rotate-secret.
	Rotation RotationService
	// Running serves GET /v1/running.
	Running RunningService
	// Services serves GET /v1/services, and finds the services of requests for GET /v1/locate.
	Services ServiceLister
	// Settings serves GET and POST /v1/settings.
	Settings SettingsService
	// Standbys serves GET /v1/map with replicas=1, and the standbys of GET /v1/locate.
	Standbys StandbyService
	// Upgrade serves GET and POST /v1/upgrade.
	Upgrade UpgradeService
	// WebSockets serves GET and POST /v1/websockets.
	WebSockets WebSocketService
}
