package sensing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"
)

// matrixOf is what the client makes of an answer's data.
func matrixOf(data []byte) (model.Matrix, error) {
	var in struct {
		Result model.Matrix `json:"result"`
	}
	err := json.Unmarshal(data, &in)
	return in.Result, err
}

var wanted = []string{"namespace", "pod", "node"}

// readAll is what the reader takes of an answer, as text.
func readAll(text []byte) (taken []string, rest []byte, err error) {
	rest, err = reader{wanted, func(s series) { taken = append(taken, seriesText(s.labels, s.values)) }}.read(bytes.NewReader(text))
	return taken, rest, err
}

func seriesText(labels [][]byte, values []model.SamplePair) string {
	var bits []string
	for _, v := range values {
		bits = append(bits, fmt.Sprint(int64(v.Timestamp), math.Float64bits(float64(v.Value))))
	}
	return fmt.Sprintf("%q %v", labels, bits)
}

func labelsRead(m model.Metric) [][]byte {
	var out [][]byte
	for _, name := range wanted {
		out = append(out, []byte(m[model.LabelName(name)]))
	}
	return out
}

// Series are read as the client reads them, and the rest of the answer is left to it.
func TestSeriesAreReadAsTheClientReadsThem(t *testing.T) {
	name := rapid.SampledFrom([]string{"namespace", "pod", "node", "instance", "\"quoted\\"})
	rapid.Check(t, func(t *rapid.T) {
		matrix := model.Matrix{}
		for range rapid.IntRange(0, 5).Draw(t, "series") {
			s := &model.SampleStream{Metric: model.Metric{}}
			for range rapid.IntRange(0, 4).Draw(t, "labels") {
				s.Metric[model.LabelName(name.Draw(t, "name"))] = model.LabelValue(rapid.String().Draw(t, "value"))
			}
			for range rapid.IntRange(0, 4).Draw(t, "samples") {
				v := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1e300})).Draw(t, "v")
				s.Values = append(s.Values, model.SamplePair{Timestamp: model.Time(rapid.Int64Range(0, 4e12).Draw(t, "t")), Value: model.SampleValue(v)})
			}
			matrix = append(matrix, s)
		}
		text, err := json.Marshal(map[string]any{
			"status": "success", "warnings": []string{"a \"warning\""}, "infos": []any{},
			"data": map[string]any{"resultType": "matrix", "result": matrix, "stats": map[string]any{"x": 1}},
		})
		if err != nil {
			t.Skip(err) // a label that no Prometheus gives
		}
		got, rest, err := readAll(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var whole, left struct {
			Status   string          `json:"status"`
			Warnings []string        `json:"warnings"`
			Data     json.RawMessage `json:"data"`
		}
		if err := errors.Join(json.Unmarshal(text, &whole), json.Unmarshal(rest, &left)); err != nil {
			t.Fatal(err)
		}
		asRead, err := matrixOf(whole.Data)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, s := range asRead {
			want = append(want, seriesText(labelsRead(s.Metric), s.Values))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s\nis read as %s\nand by the client as %s", text, got, want)
		}
		if none, err := matrixOf(left.Data); err != nil || len(none) > 0 || left.Status != whole.Status || !slices.Equal(left.Warnings, whole.Warnings) {
			t.Fatalf("left to the client: %s (%v)", rest, err)
		}
	})
}

// What is read of any text is what the client reads of it.
func FuzzSeries(f *testing.F) {
	for _, seed := range []string{
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"a","node":"n"},"values":[[1767600000,"0.5"],[1767600015.123,"NaN"]]}]}}`,
		`{"status":"success","data":{"result":[{"values":[[1,"1"]],"metric":{"pod":"A"},"histograms":[[1,{}]]}],"resultType":"matrix"}}`,
		`{"status":"error","errorType":"timeout","error":"late"}`, `{"data":{"result":[1]}}`, `{"data":{"result":{}}}`, `[]`, `{"data":`,
		`{"data":{"result":[{"values":[[1,"x"]]}]}}`, `{"data":{"result":[{"values":[[1]]}]}}`, `{"data":{"result":[{"values":[[1,"1",2]]}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got []series
		rest, err := reader{wanted, func(s series) {
			got = append(got, series{values: slices.Clone(s.values)})
		}}.read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if !json.Valid(rest) {
			t.Fatalf("left to the client of %q: %q", text, rest)
		}
		// The client takes names in any case, and the last of two alike.
		strict := jsontext.NewDecoder(bytes.NewReader(text))
		if strict.SkipValue() != nil || !bytes.Equal(text, bytes.ToLower(text)) {
			return
		}
		var whole struct {
			Data json.RawMessage `json:"data"`
		}
		_ = json.Unmarshal(text, &whole)
		asRead, err := matrixOf(whole.Data)
		if err != nil {
			return
		}
		if len(asRead) != len(got) {
			t.Fatalf("%d series are read of %q, %d by the client", len(got), text, len(asRead))
		}
		for i, s := range asRead {
			if s == nil || len(s.Values) != len(got[i].values) {
				t.Fatalf("%q: series %d is read as %v, by the client as %v", text, i, got[i].values, s)
			}
			for k, v := range s.Values {
				if mine := got[i].values[k].Value; mine != v.Value && mine == mine {
					t.Fatalf("%q: series %d is read as %v, by the client as %v", text, i, got[i].values, s)
				}
			}
		}
	})
}

// An answer that is no answer is said to be none, and one that is too large or late stays so.
func TestSeriesThatCanNotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		code int
		want failure
		text string
	}{
		"no JSON":             {strings.NewReader("<html>"), 200, refused, "bad_response"},
		"cut off":             {strings.NewReader(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{`), 200, refused, "bad_response"},
		"no series":           {strings.NewReader(`{"status":"success","data":{"resultType":"matrix","result":["a"]}}`), 200, refused, "no series"},
		"no samples":          {strings.NewReader(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[["a","b"]]}]}}`), 200, refused, "no series"},
		"a scalar":            {strings.NewReader(`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`), 200, refused, "no series"},
		"an error in a 200":   {strings.NewReader(`{"status":"error","errorType":"timeout","error":"it took too long"}`), 200, tooMuch, "it took too long"},
		"another status":      {strings.NewReader(`{"status":"error","errorType":"execution","error":"too many samples"}`), 422, tooMuch, "too many samples"},
		"the connection ends": {io.MultiReader(strings.NewReader(`{"status":`), failing{errors.New("connection reset")}), 200, unreachable, "connection reset"},
		"too large":           {io.MultiReader(strings.NewReader(`{"status":`), failing{errTooLarge}), 200, tooMuch, "larger than allowed"},
		"late":                {io.MultiReader(strings.NewReader(`{"status":`), failing{context.DeadlineExceeded}), 200, tooMuch, "deadline"},
	} {
		cfg := DefaultConfig()
		cfg.PrometheusURL = "http://prometheus.example"
		cfg.PrometheusTransport = answering(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: c.code, Header: http.Header{}, Body: io.NopCloser(c.body), Request: r}
		})
		prom, err := newPrometheus(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = prom.queryRange(reading(t.Context(), reader{wanted, func(series) {}}), "up", 1, 2, time.Minute)
		if err == nil || classify(err) != c.want || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, classified %d", name, err, classify(err))
		}
		var bad *promv1.Error
		if c.text == "bad_response" && !errors.As(err, &bad) {
			t.Errorf("%s: %T", name, err)
		}
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }
