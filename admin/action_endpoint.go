package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// actionEndpoint returns the endpoint of a verb. The arguments are in a JSON object or in the
// query, but not in both. The response is the action as the server has parsed it.
func (s *Server) actionEndpoint(verb api.Verb) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		action, err := s.readAction(r, verb)
		if err != nil {
			return err
		}
		admission := admissionOf(r)
		action.By, admission.action, admission.reason = admission.caller.String(), describeAction(action), action.Reason
		ctx, cancel := actionContext(r.Context(), w)
		defer cancel()
		warning := s.drainWarning(ctx, action) // before the leader changes, because a drained leader resigns
		if err := s.api.Cluster.Do(ctx, action); err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
		return writeJSON(w, api.ActionResult{Action: action, Warning: cmp.Or(warning, s.warningOf(action))})
	}
}

// describeAction describes an action for the log.
func describeAction(action api.Action) string {
	words := []string{action.Verb.String()}
	if action.Verb == api.Pin || action.Verb == api.Unpin || action.Hash != "" {
		words = append(words, describeShard(action))
	} else if action.Service != "" {
		words = append(words, action.Service)
	}
	for _, word := range slices.Concat([]string{action.Hash, action.Node}, action.Fallbacks, []string{action.Zone, action.For}) {
		if word != "" {
			words = append(words, word)
		}
	}
	if action.To != "" {
		words = append(words, "to "+action.To)
	}
	if action.Verb == api.Weigh {
		words = append(words, strconv.FormatUint(uint64(action.Weight), 10))
	}
	if action.Ticket > 0 {
		words = append(words, fmt.Sprintf("ticket %d", action.Ticket))
	}
	if action.Verb == api.AddService {
		words = append(words, fmt.Sprintf("with %d shards", action.Shards))
	}
	if action.IdleFirst != "" {
		words = append(words, "idle-first "+action.IdleFirst)
	}
	if action.Safe {
		words = append(words, "safely")
	}
	if action.ReleaseTimeout != "" {
		words = append(words, "release timeout "+action.ReleaseTimeout)
	}
	if action.Force {
		words = append(words, "by force")
	}
	return strings.Join(words, " ")
}

// actionContext returns a context with the timeout of an action, and extends the write deadline of
// the response accordingly.
func actionContext(ctx context.Context, w http.ResponseWriter) (context.Context, context.CancelFunc) {
	// If this fails, the shorter default timeout applies.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(api.ActionTimeout + writeTimeout))
	return context.WithTimeout(ctx, api.ActionTimeout)
}

// readBody returns the JSON body, or nil if the body is empty and the arguments are in the query.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body) // limitBody limits its size
	if err != nil || len(body) == 0 {
		return nil, err
	}
	mediaType, _, typeErr := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if typeErr != nil || mediaType != "application/json" {
		p := problem.Newf(problem.UnsupportedMediaType, "Content-Type = %q is not application/json: send JSON and say so, or put the arguments into the query", r.Header.Get("Content-Type"))
		p.Param, p.Value = "Content-Type", r.Header.Get("Content-Type")
		return nil, p
	}
	_, err = query(r) // with a body, the query must be empty
	return body, err
}

// decodeObject decodes one JSON object that has only the given names. example is part of the error
// for a malformed body.
func decodeObject[T any](body []byte, example string, names []string) (args T, err error) {
	malformed := func(err error) error {
		return problem.Newf(problem.BadRequest, "the body is not one JSON object (%v): send one such as %s", err, example)
	}
	fields, duplicate, err := objectMembers(body)
	if err != nil {
		return args, malformed(err)
	}
	for name, value := range fields {
		if !slices.Contains(names, name) {
			return args, badParam(name, string(value), "is not known here: "+allowedNames(names))
		}
	}
	if duplicate != "" {
		return args, badParam(duplicate, string(fields[duplicate]), "is there more than once: give it once")
	}
	err = json.NewDecoder(bytes.NewReader(body)).Decode(&args)
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return args, badParam(typeErr.Field, string(fields[typeErr.Field]), "is a "+typeErr.Value+": give a "+typeErr.Type.String())
	}
	if err != nil {
		return args, malformed(err)
	}
	return args, nil
}

// objectMembers returns the members of the JSON object in body. duplicate is a name that occurs
// twice, if any: JSON parsers differ in which value they use.
func objectMembers(body []byte) (fields map[string]json.RawMessage, duplicate string, err error) {
	if err = json.Unmarshal(body, &fields); err != nil {
		return nil, "", err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	names := make(map[string]bool)
	for _, err = decoder.Token(); err == nil && decoder.More(); { // Unmarshal has checked the syntax
		name, _ := decoder.Token()
		text, _ := name.(string)
		if names[text] {
			duplicate = text
		}
		names[text] = true
		var value json.RawMessage
		err = decoder.Decode(&value)
	}
	return fields, duplicate, err
}
