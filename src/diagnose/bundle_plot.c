/* See bundle_plot.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/bundle_plot.h"

#include <math.h>

#include "base/clock.h"
#include "base/macro.h"

#define WIDTH     520
#define HEIGHT    200
#define LEFT      46 /* of the plot within the picture: room for the labels of the axis */
#define TOP       8
#define BOTTOM    (HEIGHT - 22)
#define BARS_MAX  200 /* spans shown of one request */
#define TAIL_LOW  1e-4
#define STEPS     70 /* of a density curve */
#define LABELS_AT 60 /* pixels between labels of the axis, at least */

void plot_escape(struct text *to, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '<':
            text_add(to, "&lt;");
            break;
        case '>':
            text_add(to, "&gt;");
            break;
        case '&':
            text_add(to, "&amp;");
            break;
        case '"':
            text_add(to, "&quot;");
            break;
        case '\'':
            text_add(to, "&#39;");
            break;
        default:
            text_add_bytes(to, s, 1);
        }
}

/* The bins shown, [first, end): nearly all requests of both sides. */
struct axis {
    unsigned first, end;
};

static struct axis axis_of(const struct sketch *older, const struct sketch *newer, double most)
{
    double low = fmin(sketch_quantile(older, 0.001), sketch_quantile(newer, 0.001));
    double high = fmax(sketch_quantile(older, most), sketch_quantile(newer, most));
    struct axis axis = {sketch_bin((uint64_t)fmax(low, 0)), sketch_bin((uint64_t)fmax(high, 0)) + 1u};
    unsigned margin = (axis.end - axis.first) / 12 + 4;
    axis.first = (axis.first > margin ? axis.first - margin : 0) / 8 * 8;
    axis.end += margin;
    return axis;
}

static double x_of(struct axis axis, double bin)
{
    return LEFT + (bin - axis.first) / (axis.end - axis.first) * (WIDTH - LEFT - 4);
}

/* Labels at 1, 2 and 5 times powers of ten, as many as there is room for. */
static void write_axis(struct axis axis, struct text *to)
{
    static const unsigned steps[] = {1, 2, 5};
    char label[24];
    double last = -LABELS_AT;
    uint64_t ten = 1;
    for (int digits = 0; digits < 19; digits++, ten *= 10)
        for (size_t s = 0; s < ARRAY_SIZE(steps); s++) {
            uint64_t at_ns = ten * steps[s];
            double x = x_of(axis, sketch_bin(at_ns));
            if (x < LEFT || x > WIDTH - 36 || x - last < LABELS_AT)
                continue;
            last = x;
            text_addf(to, "<line x1=%.1f x2=%.1f y1=%d y2=%d class=grid /><text x=%.1f y=%d>%s</text>", x, x,
                      TOP, BOTTOM, x, HEIGHT - 6, clock_format_duration(at_ns, label, sizeof(label)));
        }
    text_addf(to, "<line x1=%d x2=%d y1=%d y2=%d class=axis />", LEFT, WIDTH, BOTTOM, BOTTOM);
}

static void open_picture(const char *title, struct text *to)
{
    text_addf(to, "<figure><figcaption>%s</figcaption><svg viewBox='0 0 %d %d' role=img aria-label='%s'>",
              title, WIDTH, HEIGHT, title);
}

static double share_of_bins(const struct sketch *sketch, unsigned bin, unsigned step)
{
    double times = 0;
    for (unsigned k = bin; k < bin + step && k < SKETCH_BINS; k++)
        times += (double)sketch_bin_count(sketch, (uint16_t)k);
    return sketch->count ? times / (double)sketch->count : 0;
}

static void density_curve(const struct sketch *sketch, struct axis axis, unsigned step, double top,
                          const char *class, struct text *to)
{
    double height = BOTTOM - TOP - 6;
    text_addf(to, "<path class='curve %s' d='M%.1f,%d", class, x_of(axis, axis.first), BOTTOM);
    for (unsigned bin = axis.first; bin < axis.end; bin += step)
        text_addf(to, "L%.1f,%.1f", x_of(axis, fmin(bin + step / 2.0, axis.end)),
                  BOTTOM - share_of_bins(sketch, bin, step) / top * height);
    text_addf(to, "L%.1f,%d'/>", x_of(axis, axis.end), BOTTOM);
    double p95 = x_of(axis, sketch_bin((uint64_t)sketch_quantile(sketch, 0.95)));
    text_addf(to, "<line x1=%.1f x2=%.1f y1=%d y2=%d class='mark %s' />", p95, p95, TOP, BOTTOM, class);
}

void plot_density(const struct sketch *older, const struct sketch *newer, struct text *to)
{
    struct axis axis = axis_of(older, newer, 0.995);
    unsigned step = MAX((axis.end - axis.first) / STEPS, 1u);
    double top = 1e-9;
    for (unsigned bin = axis.first; bin < axis.end; bin += step)
        top = fmax(top, fmax(share_of_bins(older, bin, step), share_of_bins(newer, bin, step)));
    open_picture("How often each latency is met; dashed: p95", to);
    write_axis(axis, to);
    density_curve(older, axis, step, top, "older", to);
    density_curve(newer, axis, step, top, "newer", to);
    text_add(to, "</svg></figure>");
}

static void tail_curve(const struct sketch *sketch, struct axis axis, double least, const char *class,
                       struct text *to)
{
    uint16_t first, end;
    uint64_t above = sketch->count;
    sketch_range(sketch, &first, &end);
    for (unsigned bin = first; bin < axis.first && bin < end; bin++)
        above -= sketch_bin_count(sketch, (uint16_t)bin);
    text_addf(to, "<path class='line %s' d='", class);
    const char *pen = "M";
    for (unsigned bin = axis.first; bin < axis.end && sketch->count; bin++) {
        double share = fmax((double)above / (double)sketch->count, least);
        text_addf(to, "%s%.1f,%.1f", pen, x_of(axis, bin), TOP + log(share) / log(least) * (BOTTOM - TOP));
        if (share <= least)
            break;
        pen = "L";
        above -= bin < SKETCH_BINS ? sketch_bin_count(sketch, (uint16_t)bin) : 0;
    }
    text_add(to, "'/>");
}

void plot_tail(const struct sketch *older, const struct sketch *newer, struct text *to)
{
    struct axis axis = axis_of(older, newer, 1);
    double requests = (double)MAX(MAX(older->count, newer->count), (uint64_t)10);
    double least = fmax(pow(10, -floor(log10(requests))), TAIL_LOW);
    open_picture("Share of requests that are slower", to);
    write_axis(axis, to);
    for (double share = 1; share >= least * 0.99; share /= 10) {
        double y = TOP + log(share) / log(least) * (BOTTOM - TOP);
        text_addf(to,
                  "<line x1=%d x2=%d y1=%.1f y2=%.1f class=grid /><text x=%d y=%.1f class=left>%g %%</text>",
                  LEFT, WIDTH, y, y, LEFT - 4, y + 4, share * 100);
    }
    tail_curve(older, axis, least, "older", to);
    tail_curve(newer, axis, least, "newer", to);
    text_add(to, "</svg></figure>");
}

static double interval_x(double ratio, double reach)
{
    double x = 100 + log(fmax(ratio, 1e-9)) / log(reach) * 98;
    return fmin(fmax(x, 2), 198);
}

void plot_interval(double ratio, double low, double high, double reach, bool slower, struct text *to)
{
    text_addf(
        to,
        "<svg viewBox='0 0 200 16' class='interval %s' role=img aria-label='%.2f, %.2f to %.2f'>"
        "<line x1=100 x2=100 y1=0 y2=16 class=axis /><line x1=%.1f x2=%.1f y1=8 y2=8 stroke=currentColor "
        "stroke-width=2 /><circle cx=%.1f cy=8 r=4 fill=currentColor /></svg>",
        slower ? "newer" : "", ratio, low, high, interval_x(low, reach), interval_x(high, reach),
        interval_x(ratio, reach));
}

static unsigned depth_of(const struct exemplar *e, size_t i)
{
    unsigned depth = 0;
    for (uint32_t up = e->parts[i].up; up != PART_NONE && up < e->count && depth < 12; up = e->parts[up].up)
        depth++;
    return depth;
}

static void request_row(const struct book *book, const struct exemplar *e, size_t i, bool on_path,
                        uint64_t scale_ns, struct text *to)
{
    const struct part *p = &e->parts[i];
    char label[24];
    double left = (double)(int64_t)(p->start_ns - e->parts[0].start_ns) / (double)scale_ns * 100;
    double width = (double)(p->end_ns - p->start_ns) / (double)scale_ns * 100;
    left = fmin(fmax(left, 0), 99.5);
    width = fmin(fmax(width, 0.4), 100 - left);
    text_addf(to, "<tr%s><td style='padding-left:%.1fem'>", on_path ? " class=on" : "", depth_of(e, i) * 0.8);
    plot_escape(to, names_get(book->names, p->service));
    text_add(to, " ");
    plot_escape(to, names_get(book->names, p->name));
    text_addf(to, "%s<td class=lane><i style='margin-left:%.2f%%;width:%.2f%%'></i><td class=n>%s</tr>",
              p->error ? " <b>error</b>" : "", left, width,
              clock_format_duration(p->end_ns - p->start_ns, label, sizeof(label)));
}

void plot_request(const struct book *book, const struct exemplar *e, uint64_t scale_ns, const char *class,
                  struct text *to)
{
    struct path_scratch scratch = {0};
    char label[24];
    size_t n = MIN(e->count, (size_t)BARS_MAX);
    struct trace trace = {e->high, e->low, e->parts, e->count};
    _cleanup_(freep) struct path_time *times = calloc(e->count + 1, sizeof(*times));
    bool known = times && path_find(&trace, 0, &scratch, times) == 0;
    text_addf(to, "<p class=note>%s, trace %llx%016llx</p><table class='request %s'>",
              clock_format_duration(e->duration_ns, label, sizeof(label)), (unsigned long long)e->high,
              (unsigned long long)e->low, class);
    for (size_t i = 0; i < n; i++)
        request_row(book, e, i, known && times[i].on_path && times[i].critical_ns, MAX(scale_ns, 1), to);
    text_add(to, "</table>");
    if (e->count > n)
        text_addf(to, "<p class=note>%zu more spans</p>", e->count - n);
    path_scratch_done(&scratch);
}
