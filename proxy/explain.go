package proxy

import (
	"slices"

	"shardway/internal/problem"
	"shardway/proxy/route"
)

// Explanation is what the node knows of why a request is not served.
type Explanation struct {
	// Finding is a sentence for the client; empty: nothing is known.
	Finding string
	// Led: somebody leads.
	Led bool
	// Vain: nothing that requests could wait for will come, because no node has an app.
	Vain bool
}

// explain asks the node what is the matter.
func (s *Server) explain(why route.Reason) Explanation {
	if s.o.Explain == nil {
		return Explanation{}
	}
	return s.o.Explain(why)
}

// inVain reports that a request for a shard that nobody owns would wait for nothing.
func (s *Server) inVain(v decision) bool {
	return (v.reason == route.ReasonNoMap || v.reason == route.ReasonOrphaned) && s.explain(v.reason).Vain
}

// explained adds the finding to an answer that the cluster is to blame for. Without a map
// and with a leader it is not the leader that is missing.
func (s *Server) explained(p *problem.Problem, why route.Reason) {
	if !slices.Contains([]problem.Code{problem.NoLeader, problem.QueueTimeout, problem.QueueFull, problem.UpstreamRefused, problem.PeerUnreachable}, p.Code) {
		return
	}
	e := s.explain(why)
	p.Finding = e.Finding
	if p.Code == problem.NoLeader && why == route.ReasonNoMap && e.Led {
		p.Code = problem.QueueTimeout
	}
}
