package sensing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// A cycle's own query has a series for every pod. Its answer is looked at while it comes
// in and is never in memory as a whole: decoding it into a model.Matrix takes 2 kB and a
// dozen allocations a pod.

// series of an answer, in memory that the next one reuses.
type series struct {
	// labels are the values of those that were asked for, in their order; empty where the
	// series has none of that name.
	labels [][]byte
	values []model.SamplePair
}

// reader of an answer's series: it wants some labels, and takes one series after the other.
type reader struct {
	labels []string
	take   func(series)
}

type readerKey struct{}

// reading has r read the series of the answer to a request with this context. The client sees
// an answer without any.
func reading(ctx context.Context, r reader) context.Context {
	return context.WithValue(ctx, readerKey{}, r)
}

// readingTransport lets the reader of a request's context read what comes in.
type readingTransport struct{ http.RoundTripper }

func (t readingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	reader, ok := r.Context().Value(readerKey{}).(reader)
	if err != nil || !ok || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	rest, err := reader.read(resp.Body)
	_ = resp.Body.Close()
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) || errors.Is(err, errNoMatrix) {
		err = &promv1.Error{Type: promv1.ErrBadResponse, Msg: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(rest)), int64(len(rest))
	return resp, nil
}

var errNoMatrix = errors.New("the answer has no series of samples")

// read takes the series of an answer of Prometheus' API (data.result), and returns it without
// them.
func (r reader) read(body io.Reader) ([]byte, error) {
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	in := jsontext.NewDecoder(body, lenient...)
	var rest bytes.Buffer
	out := jsontext.NewEncoder(&rest, lenient...)
	within := func(end jsontext.Kind, each func() error) error { // an object or array
		for in.PeekKind() != end {
			if err := each(); err != nil {
				return err
			}
		}
		_, err := in.ReadToken()
		return err
	}
	copied := func() error {
		v, err := in.ReadValue()
		if err != nil {
			return err
		}
		return out.WriteValue(v)
	}
	// members copies an object, with what one of its members is instead.
	members := func(of string, instead func() error) error {
		if in.PeekKind() != '{' {
			return copied()
		}
		if err := errors.Join(skipToken(in), out.WriteToken(jsontext.BeginObject)); err != nil {
			return err
		}
		if err := within('}', func() error {
			name, err := in.ReadValue()
			if err != nil {
				return err
			}
			isIt := string(name) == of
			if err := out.WriteValue(name); err != nil {
				return err
			}
			if isIt {
				return instead()
			}
			return copied()
		}); err != nil {
			return err
		}
		return out.WriteToken(jsontext.EndObject)
	}
	err := members(`"data"`, func() error {
		return members(`"result"`, func() error {
			if in.PeekKind() != '[' {
				return copied()
			}
			if err := errors.Join(skipToken(in), out.WriteValue(jsontext.Value("[]"))); err != nil {
				return err
			}
			s := series{labels: make([][]byte, len(r.labels))}
			return within(']', func() error {
				if err := r.series(in, &s); err != nil {
					return err
				}
				r.take(s)
				return nil
			})
		})
	})
	return rest.Bytes(), err
}

func skipToken(in *jsontext.Decoder) error {
	_, err := in.ReadToken()
	return err
}

// series reads one, {"metric": {…}, "values": [[seconds, "value"], …]}; other members are left
// out.
func (r reader) series(in *jsontext.Decoder, s *series) error {
	for i := range s.labels {
		s.labels[i] = s.labels[i][:0]
	}
	s.values = s.values[:0]
	if in.PeekKind() != '{' {
		return errors.Join(errNoMatrix, in.SkipValue())
	}
	return object(in, func(name jsontext.Value) error {
		switch {
		case string(name) == `"metric"` && in.PeekKind() == '{':
			return object(in, func(name jsontext.Value) error { return r.label(in, name, s) })
		case string(name) == `"values"` && in.PeekKind() == '[':
			if err := skipToken(in); err != nil {
				return err
			}
			for in.PeekKind() != ']' {
				if err := s.sample(in); err != nil {
					return err
				}
			}
			return skipToken(in)
		}
		return in.SkipValue()
	})
}

// object reads one: each name, in quotes, is followed by what of reads.
func object(in *jsontext.Decoder, of func(name jsontext.Value) error) error {
	if err := skipToken(in); err != nil {
		return err
	}
	for in.PeekKind() != '}' {
		name, err := in.ReadValue()
		if err != nil {
			return err
		}
		if err := of(name); err != nil {
			return err
		}
	}
	return skipToken(in)
}

// label keeps a label's value if it is one that is wanted.
func (r reader) label(in *jsontext.Decoder, name jsontext.Value, s *series) error {
	at := -1
	for i, wanted := range r.labels {
		if string(name[1:len(name)-1]) == wanted {
			at = i
		}
	}
	value, err := in.ReadValue()
	if err != nil || at < 0 {
		return err
	}
	s.labels[at], err = jsontext.AppendUnquote(s.labels[at][:0], value)
	return err
}

// sample reads [seconds, "value"].
func (s *series) sample(in *jsontext.Decoder) error {
	if in.PeekKind() != '[' {
		return errors.Join(errNoMatrix, in.SkipValue())
	}
	if err := skipToken(in); err != nil {
		return err
	}
	var numbers [2]float64
	for i := range numbers {
		text, err := in.ReadValue()
		if err != nil {
			return err
		}
		if text.Kind() == '"' {
			text = text[1 : len(text)-1]
		}
		if numbers[i], err = strconv.ParseFloat(string(text), 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return errors.Join(errNoMatrix, err)
		}
	}
	s.values = append(s.values, model.SamplePair{Timestamp: model.Time(math.Round(numbers[0] * 1000)), Value: model.SampleValue(numbers[1])})
	if in.PeekKind() != ']' {
		return errNoMatrix
	}
	return skipToken(in)
}
