package admin

import (
	"bytes"
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
func (s *Server) actionEndpoint(v api.Verb) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		a, err := s.readAction(r, v)
		if err != nil {
			return err
		}
		c := admissionOf(r)
		a.By, c.action = c.caller.String(), describeAction(a)
		ctx, cancel := actionContext(r.Context(), w)
		defer cancel()
		if err := s.api.Cluster.Do(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", v, err)
		}
		return writeJSON(w, a)
	}
}

// describeAction describes an action for the log.
func describeAction(a api.Action) string {
	words := []string{a.Verb.String()}
	if a.Verb == api.Pin || a.Verb == api.Unpin || a.Hash != "" {
		words = append(words, fmt.Sprintf("shard %d", a.Shard))
	}
	for _, word := range []string{a.Hash, a.Node, a.Zone, a.For} {
		if word != "" {
			words = append(words, word)
		}
	}
	if a.Verb == api.Weigh {
		words = append(words, strconv.FormatUint(uint64(a.Weight), 10))
	}
	if a.IdleFirst != "" {
		words = append(words, "idle-first "+a.IdleFirst)
	}
	if a.Safe {
		words = append(words, "safely")
	}
	if a.ReleaseTimeout != "" {
		words = append(words, "release timeout "+a.ReleaseTimeout)
	}
	if a.Reason != "" {
		words = append(words, strconv.Quote(a.Reason))
	}
	if a.Force {
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
	if t, _, wrong := mime.ParseMediaType(r.Header.Get("Content-Type")); wrong != nil || t != "application/json" {
		p := problem.Newf(problem.UnsupportedMediaType, "Content-Type = %q is not application/json: send JSON and say so, or put the arguments into the query", r.Header.Get("Content-Type"))
		p.Param, p.Value = "Content-Type", r.Header.Get("Content-Type")
		return nil, p
	}
	_, err = query(r)
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
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&args); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return args, badParam(wrong.Field, string(fields[wrong.Field]), "is a "+wrong.Value+": give a "+wrong.Type.String())
		}
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
	d := json.NewDecoder(bytes.NewReader(body))
	seen := make(map[string]bool)
	for _, err = d.Token(); err == nil && d.More(); { // Unmarshal has checked the syntax
		name, _ := d.Token()
		text, _ := name.(string)
		if seen[text] {
			duplicate = text
		}
		seen[text] = true
		var value json.RawMessage
		err = d.Decode(&value)
	}
	return fields, duplicate, err
}
