"""A self-contained HTML file, and the small report for notebooks.

page.py            what the templates are given
slow_list.py       which slow rows it lists
labels.py          the pages' own headings and controls
render.py          template, content and charts to one file in which nothing of a log can act
charts.py          what is drawn, before any pixel; losses in loss_charts.py, times to a loss in arrival_charts.py
wall_timeline.py   the strips of the wall clock
waterfall.py       a waterfall chart of bars
notebook.py        without scripts; its drawings are static_chart.py
templates/         the structure of the pages
assets/            their styles and scripts
"""
