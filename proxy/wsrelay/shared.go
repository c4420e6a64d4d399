package wsrelay

import (
	"time"

	"shardway/internal/coarsetime"
	"shardway/internal/netpoll"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// Shared is the state shared by all relays of a node. It must not change after the first relay has started. Any
// goroutine may call its functions.
type Shared struct {
	Clock        *coarsetime.Clock
	DrainTimeout time.Duration        // how long the app has to answer the close frame of a hand-over
	IdleTimeout  func() time.Duration // limit of the wait for an endpoint's close frame

	IdleSockets     *netpoll.Watcher // watches the sockets of parked directions
	ParkingDisabled bool             // directions do not park
	// ParkDelay returns how long a direction must be idle before it parks. returnedSoon means that
	// it was parked before, for less than ReturnedSoon.
	ParkDelay    func(returnedSoon bool) time.Duration
	ReturnedSoon time.Duration

	// Recover calls direction and returns its result. After a panic it returns false.
	Recover func(direction func() bool) bool
	// AppRefuses reports whether an app instance of this node no longer accepts connections. It may block.
	AppRefuses func(instance uint8) bool
	// RouteChanged reports whether the route of the shard, or its ownership epoch, differs from dest.
	RouteChanged func(shard shardmap.Shard, dest *route.Route) bool
}
