package scalingops

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Fit is the least-squares regression delay = a₀ + a₁·CPU + a₂·requests (eq. 3). The
// environments leave a₀ out, as the paper does, and multiply by Alpha.
type Fit struct {
	// Intercept a₀ is in milliseconds, PerCPU a₁ in ms a millicore of a replica's mean
	// usage, PerRequest a₂ in ms for each request a second.
	Intercept  float64 `json:"intercept"`
	PerCPU     float64 `json:"perCPU"`
	PerRequest float64 `json:"perRequest"`
	// R2 is the share of the delay's variance that is explained, 0–1; Adjusted allows for
	// the number of coefficients.
	R2       float64 `json:"r2"`
	Adjusted float64 `json:"adjustedR2"`
	// P is how probable so good a fit is where nothing is explained, by the F-test.
	P    float64 `json:"p"`
	Rows int     `json:"rows"`
	// Independent is how many rows that have nothing to do with one another would say as
	// much: what a row's delay is off is like what that of the row before is.
	Independent float64 `json:"independentRows"`
	// PerCPUError is the standard error of a₁.
	PerCPUError float64 `json:"perCPUError"`
	// Alpha is what a₁·CPU + a₂·requests is multiplied by: the paper's 0.4, or what fits
	// the observed delays best.
	Alpha float64 `json:"alpha"`
	// Error is the root mean square of what the environments' delay is off, ms, and Bias
	// its mean.
	Error float64 `json:"error"`
	Bias  float64 `json:"bias"`
}

// PublishedAlpha is that of the paper's Algorithm 1.
const PublishedAlpha = 0.4

// least is the adjusted R² under which a fit is refused, most the p-value above which, and
// told how many of its standard errors the coefficient of CPU must be apart from 0.
const (
	least = 0.05
	most  = 0.01
	told  = 2
)

// FitDelay fits a history. With alpha 0 the one that fits best is taken. The error says why
// the delay can't be predicted from it; the Fit is there to be shown all the same.
func FitDelay(h History, alpha float64) (Fit, error) {
	n := len(h)
	x, y := mat.NewDense(n, 3, nil), mat.NewVecDense(n, nil)
	for i, r := range h {
		x.SetRow(i, []float64{1, r.CPU, r.Requests})
		y.SetVec(i, r.Delay)
	}
	f := Fit{Rows: n, P: 1}
	var qr mat.QR
	qr.Factorize(x)
	var b mat.VecDense
	if cond := qr.Cond(); cond > 1e12 {
		return f, fmt.Errorf("%w: CPU or requests don't vary, or one follows from the other: the delay can't be told from them", ErrHistory)
	}
	if err := qr.SolveVecTo(&b, false, y); err != nil {
		return f, fmt.Errorf("%w: the regression of delay has no solution: %w", ErrHistory, err)
	}
	f.Intercept, f.PerCPU, f.PerRequest = b.AtVec(0), b.AtVec(1), b.AtVec(2)
	mean := h.mean(delay)
	var residual, total, xx, xy, before, along float64
	for _, r := range h {
		predicted := f.PerCPU*r.CPU + f.PerRequest*r.Requests
		off := r.Delay - f.Intercept - predicted
		residual, along, before = residual+off*off, along+off*before, off
		total += square(r.Delay - mean)
		xx, xy = xx+predicted*predicted, xy+predicted*r.Delay
	}
	f.Independent = independent(n, along, residual)
	f.PerCPUError = h.errorPerCPU(residual / math.Max(f.Independent-3, 1e-300))
	if total > 0 {
		f.R2 = 1 - residual/total
		f.Adjusted = 1 - (1-f.R2)*float64(n-1)/float64(n-3)
		if free := f.Independent - 3; free > 0 {
			if ratio := f.R2 / 2 / math.Max((1-f.R2)/free, 1e-300); ratio > 0 {
				f.P = distuv.F{D1: 2, D2: free}.Survival(ratio)
			}
		}
	}
	if f.Alpha = alpha; alpha == 0 && xx > 0 {
		f.Alpha = xy / xx
	}
	for _, r := range h {
		off := f.Delay(r.CPU, r.Requests) - r.Delay
		f.Error, f.Bias = f.Error+off*off/float64(n), f.Bias+off/float64(n)
	}
	f.Error = math.Sqrt(f.Error)
	switch {
	case !(f.P <= most) || f.Adjusted < least:
		return f, fmt.Errorf("%w: CPU and requests explain %.1f %% of the delay's variance (adjusted R² %.3f, p %.2g): nothing can be learned from that", ErrHistory, 100*f.R2, f.Adjusted, f.P)
	case !(math.Abs(f.PerCPU) >= told*f.PerCPUError):
		return f, fmt.Errorf("%w: CPU and requests vary too little, or too much alike: what CPU does to the delay can't be told, it is %.3g ± %.2g ms a millicore", ErrHistory, f.PerCPU, f.PerCPUError)
	case f.PerCPU <= 0:
		return f, fmt.Errorf("%w: by its fit the delay falls by %.3g ms with each millicore that a replica uses: more replicas would only ever do harm", ErrHistory, -f.PerCPU)
	case !(f.Alpha > 0):
		return f, fmt.Errorf("%w: without its intercept of %.0f ms the fit has delays of the wrong sign", ErrHistory, f.Intercept)
	}
	return f, nil
}

// Delay that the environments have for a replica's CPU, millicores, and requests a second
// (eq. 5), ms and never below 0.
func (f Fit) Delay(cpu, requests float64) float64 {
	return math.Max(0, f.Alpha*(f.PerCPU*cpu+f.PerRequest*requests))
}

// independent is how many of n rows are left of those whose residuals are alike from row to
// row, by their autocorrelation (Bartlett's formula for two series which both are).
func independent(n int, along, residual float64) float64 {
	if !(residual > 0) {
		return float64(n)
	}
	alike := math.Max(0, along/residual)
	return float64(n) * (1 - alike) / (1 + alike)
}

// errorPerCPU is the standard error of a₁ where the residuals' sum of squares is so much for
// each row beyond the coefficients.
func (h History) errorPerCPU(residual float64) float64 {
	usage, rate := h.mean(cpu), h.mean(requests)
	var uu, rr, ur float64
	for _, r := range h {
		u, v := r.CPU-usage, r.Requests-rate
		uu, rr, ur = uu+u*u, rr+v*v, ur+u*v
	}
	return math.Sqrt(residual / (uu - ur*ur/rr))
}

func square(x float64) float64 { return x * x }
