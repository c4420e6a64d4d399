// Package mux carries many streams, its lanes, over one connection between two nodes.
//
// A request that goes from node to node costs two system calls at each end where it has
// a connection of its own, and under TLS a record each way. On a trunk what many lanes
// say at one time is one write, and what it brings is one read:
//
//	lane ─┐ frames              one connection            frames ┌─ lane
//	lane ─┼─► urgent, others ─► ════════════════ ─► reader ──────┼─ lane
//	lane ─┘   (one writes)                          (Run)        └─ lane
//
// The one who dialed opens lanes, the other is given them. Each end has a goroutine that
// reads, and one that writes where that has to wait; who has something to say while nobody
// writes does so itself, for all who join it, as far as the socket takes it at once: what TLS
// has sealed, too. All others meet only memory. A Lane is a net.Conn that ends and breaks as
// TCP does: what was cut never looks whole to who reads it.
//
// The rules that must hold:
//
//   - Nobody sends what the other end has no room for: a lane begins with Window bytes of
//     credit, and gets back what its reader has taken. So the reader never waits for a
//     lane, and a reader that takes nothing holds up its own lane only. Who sends more
//     loses the trunk. Lanes that are many begin with FirstWindow, and share what they may have
//     beyond that (Budget.Sharing).
//   - A lane counts until both ends have closed it and the writer has taken that up, and MaxLanes
//     count at most, whichever of a node's trunks they go by (Budget): so what one node has
//     another keep and work on is bounded, also where it cuts what it opened at once, and so is
//     what waits for an end that reads nothing. One lane too many is refused, and costs no
//     other. Those of a trunk that broke leave room for the next, as soon as either end knows.
//   - Who opens lanes never waits for what others have to say: what is here as a whole is queued
//     as far as its credit goes, and where much waits already nobody is given a lane. Of trunks
//     with up to MaxLegs lanes both ends wait: those are too many for that.
//   - The bytes of a lane arrive in order, and its end behind them. A reset, credit and a
//     ping are urgent and pass what waits to be written, but no reset what opens its lane.
//   - The number of a lane is never used again, so what comes late for one that has ended
//     is nobody's. Which lane was the last is said once, and takes nothing back.
//   - Whatever breaks the trunk breaks all its lanes, each with that error. Of what had not begun
//     to be written then nobody has read anything, and the lane says so (Untaken).
//   - A trunk by which nothing comes ends at the end that was dialed, and holds little until then.
//
// Whether the path is dead, the kernel tells of the connection as of any other: a ping
// gives it something to have acknowledged while nothing else is on its way. That its answer
// (pong) stays away ends nothing, for a process that stands still is not a path that is
// dead; but a Set opens a lane only by a trunk from which something came just now, and asks
// for that word beside what goes on. Nobody waits for a trunk: who is given no lane at once
// does without, unless he asks for one soon (LaneSoon).
package mux
