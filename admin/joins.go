package admin

import (
	"net/http"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// joins responds with the join requests and the members.
func (s *Server) joins(w http.ResponseWriter, r *http.Request) error {
	if s.api.Joins == nil {
		return problem.New(problem.NotFound, "this node lists no joins")
	}
	if _, err := query(r); err != nil {
		return err
	}
	list := s.api.Joins.Joins()
	list.Joins = nonNil(list.Joins)
	for i := range list.Joins {
		list.Joins[i].Stages = nonNil(list.Joins[i].Stages)
	}
	return writeJSON(w, list)
}

// readTicket sets the ticket of Approve and Refuse, and checks that a refusal has a reason.
func readTicket(action *api.Action, args api.Arguments) error {
	if args.Ticket != nil {
		action.Ticket = *args.Ticket
	}
	if action.Verb == api.Refuse && args.Reason == "" {
		return missing("reason", "give the reason that the node reports, as in "+action.Verb.Example()+" or ?reason=unknown+node")
	}
	return nil
}
