package forecast
import ("testing";"time";"math";"github.com/mash2-io/mash2/api")
func BenchmarkQuarterDays(b *testing.B) {
	// day at 15 s, 48 h
	s := sampled(func(x float64) float64 { return 100+50*math.Sin(2*math.Pi*x/86400)+20*math.Sin(2*math.Pi*x/43200) }, 15*time.Second, 11520, 0.05, 3, 0, 1)
	st, err := Auto{}.Update(NewState("x"), s, 63)
	if err != nil { b.Fatal(err) }
	b.Log(st.Model, st.Seasons)
	b.ReportAllocs()
	for b.Loop() { if _, err := (Auto{}).Forecast(st, s, 63, []float64{.1,.5,.9,.95}); err != nil { b.Fatal(err) } }
}
func BenchmarkNaiveBig(b *testing.B) {
	s := sampled(func(x float64) float64 { return 100+50*math.Sin(2*math.Pi*x/86400) }, 15*time.Second, 11520, 0.05, 3, 0, 1)
	st := State{Fits:1, Step: s.Step, Model: LevelName, Alpha: .1}
	b.ReportAllocs()
	for b.Loop() { if _, err := (Auto{}).Forecast(st, s, 63, []float64{.1,.5,.9,.95}); err != nil { b.Fatal(err) } }
}
func BenchmarkRefitBig(b *testing.B) {
	s := sampled(func(x float64) float64 { return 100+50*math.Sin(2*math.Pi*x/86400)+20*math.Sin(2*math.Pi*x/43200) }, 15*time.Second, 11520, 0.05, 3, 0, 1)
	b.ReportAllocs()
	for b.Loop() { if _, err := (Auto{}).Update(State{}, s, 63); err != nil { b.Fatal(err) } }
}
var _ = api.Series{}
